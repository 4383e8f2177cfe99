package zktest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// TestCollectedParentIsMadeAgain: the server has collected the queue's container, so that its
// sequences begin anew, and the tokens do not.
func TestCollectedParentIsMadeAgain(t *testing.T) {
	server, conn := begin(t)
	store := newStore(t, server, nil)
	first := lock(t, store, "/collected")
	require.NoError(t, first.Release())
	await(t, func() bool {
		there, _, err := conn.Exists("/collected")
		require.NoError(t, err)
		return !there
	})
	second := lock(t, store, "/collected")
	require.Regexp(t, "-lock-0000000000$", nodeOf(t, second))
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Release())
}

// TestParentThatIsCollectedWhileItsChildIsMade is the same in the middle of a Lock.
func TestParentThatIsCollectedWhileItsChildIsMade(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, conn := begin(t)
	path := fmt.Sprint("/queue/race", time.Now().UnixNano(), "/parent")
	store := newTapped(t, server, withTTL(longest))
	var tries atomic.Int64
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		// The first try is made before there is anything above.
		if op == opContainer && bytes.Contains(frame, []byte(path)) && tries.Add(1) == 2 {
			if err := conn.Delete(path[:len(path)-len("/parent")], -1); err != nil {
				t.Error(err)
			}
		}
		return pass
	})
	lease := lock(t, store.Store, path)
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
	require.EqualValues(t, 3, tries.Load())
	require.NoError(t, lease.Release())
}

// TestParentsAreMadeFromTheBottom: a user may have no right above what is its own, and what it makes above its
// queue is for everybody.
func TestParentsAreMadeFromTheBottom(t *testing.T) {
	server, conn := begin(t)
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	persistent(t, conn, "/queue/bottom/ours")
	restrict(t, conn, "/queue/bottom", client.DigestACL(client.PermAll, "user", "password"), client.PermRead)
	p := newTap(t, server)
	var made atomic.Int64
	p.onRequest(next(opContainer, 1<<62, pass, func() { made.Add(1) }))
	in := openSession(t, p.addr(), longest)
	create(t, in, "/queue/bottom/ours/a/b", driver.Exclusive)
	require.EqualValues(t, 3, made.Load(), "the queue's that fails, the one above, the queue's")
	create(t, in, "/queue/bottom/ours/a/c", driver.Exclusive)
	require.EqualValues(t, 4, made.Load())
}

// TestQueueBelowAnotherThatSortsAheadIsRefused: a lock below another one has a container of its own, which blocks the
// other if its name is a number. If it is a word, it is no entry of the other, whatever the word.
func TestQueueBelowAnotherThatSortsAheadIsRefused(t *testing.T) {
	server, _ := begin(t)
	store := newStore(t, server, nil)
	below := lock(t, store, "/queue/number/0")
	mu := farsync.NewMutex(store, "/queue/number")
	_, err := mu.Lock(within(t, soon))
	require.ErrorContains(t, err, `"/queue/number/0" is not ephemeral`)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_, err = store.Participants(within(t, soon), "/queue/number")
	require.ErrorContains(t, err, `"/queue/number/0" is not ephemeral`)
	require.NoError(t, below.Release())
	held := []*farsync.Lease{lock(t, store, "/queue/word")}
	for _, word := range []string{"below", "lock-b", "leases"} {
		held = append(held, lock(t, store, "/queue/word/"+word))
	}
	list, err := store.Participants(within(t, soon), "/queue/word")
	require.NoError(t, err)
	require.Len(t, list, 1)
	for _, lease := range held {
		require.NoError(t, lease.Release())
	}
}

// TestNegativeSequenceIsRefusedAndLeavesNothing: the counter has 31 bits. It takes 2^31 creates to make a server give one; here the tap
// says that it did.
func TestNegativeSequenceIsRefusedAndLeavesNothing(t *testing.T) {
	server, conn := begin(t)
	path := fmt.Sprint("/queue/negative", time.Now().UnixNano()) // whose first sequence is 0
	persistent(t, conn, path)
	store := newTapped(t, server, withTTL(longest))
	made, told := []byte("-lock-0000000000"), []byte("-lock--000000001")
	translate := func(from, to []byte) func(int32, []byte) verdict {
		return func(op int32, frame []byte) verdict {
			if op != opConnect {
				copy(frame, bytes.ReplaceAll(frame, from, to))
			}
			return pass
		}
	}
	store.tap.onRequest(translate(told, made))
	store.tap.onReply(translate(made, told))
	ctx := within(t, soon)
	_, err := farsync.NewMutex(store.Store, path).Lock(ctx)
	require.ErrorContains(t, err, "2^31")
	require.NoError(t, ctx.Err())
	awaitNodes(t, conn, path, 0)
}

// TestCrowdIsReadOnceAndEntriesLeaveInAnyOrder: what a session knows of a long queue grants nothing that the queue itself
// would not.
func TestCrowdIsReadOnceAndEntriesLeaveInAnyOrder(t *testing.T) {
	server, conn := begin(t)
	p := newTap(t, server)
	in := openSession(t, p.addr(), longest)
	const queue, last = "/queue/leavers", 99
	var crowd []driver.Entry
	for range last + 1 {
		crowd = append(crowd, create(t, in, queue, driver.Candidate))
	}
	look := func(i int) []driver.Entry {
		v, err := in.Ahead(within(t, soon), crowd[i], false)
		require.NoError(t, err)
		require.True(t, v.All)
		require.Equal(t, crowd[i].ID, v.Self.ID)
		return v.Entries
	}
	require.Len(t, look(last), last)
	for left, i := range rand.New(rand.NewPCG(1, 2)).Perm(last) {
		require.NotEmpty(t, look(last), "%d have left", left)
		gone := make(chan error, 1)
		p.since()
		go func() { // ends with its context
			_, err := in.Watch(within(t, soon), crowd[last], []driver.Target{{Entry: crowd[i]}}, func() {})
			gone <- err
		}()
		p.await(t, opGetData, 1)
		require.NoError(t, conn.Delete(crowd[i].ID, -1))
		require.NoError(t, got(t, gone))
	}
	p.since()
	require.Empty(t, look(last))
	require.Equal(t, requests{opGetData: 1}, p.since(), "its own node")
	require.NoError(t, conn.Delete(crowd[last].ID, -1))
	_, err := in.Ahead(within(t, soon), crowd[last], true)
	require.ErrorIs(t, err, driver.ErrGone)
}

// TestWordsAreCurators: there is one word, and it stands where the value was.
func TestWordsAreCurators(t *testing.T) {
	server, conn := begin(t)
	in, other := openSession(t, server, longest), openSession(t, server, longest)
	e := create(t, in, "/queue/words", driver.Exclusive)
	heard, err := in.Heard(within(t, soon), e)
	require.NoError(t, err)
	require.Empty(t, heard)
	told := make(chan error, 1)
	go func() { // ends with its context
		_, err := in.Watch(within(t, soon), e, []driver.Target{{Entry: e, What: driver.Told}}, func() {})
		told <- err
	}()
	_, err = other.Tell(within(t, soon), e, "give it back")
	require.NoError(t, err)
	require.NoError(t, got(t, told))
	data, _, err := conn.Get(e.ID)
	require.NoError(t, err)
	require.Equal(t, "__REVOKE__", string(data))
	heard, err = in.Heard(within(t, soon), e)
	require.NoError(t, err)
	require.Equal(t, "__REVOKE__", heard)
	_, _, err = in.Delete(within(t, soon), e)
	require.NoError(t, err)
	_, err = other.Tell(within(t, soon), e, "")
	require.ErrorIs(t, err, driver.ErrGone)
	_, err = in.Heard(within(t, soon), e)
	require.ErrorIs(t, err, driver.ErrGone)
}

// TestGrantedTimeoutCounts: the server moves what is asked for into its own bounds.
func TestGrantedTimeoutCounts(t *testing.T) {
	server, _ := begin(t)
	rows := map[time.Duration]time.Duration{24 * time.Hour: longest, 15 * time.Second: 15 * time.Second}
	if suite.More(t, suite.ZooKeeper) { // sessions that must not run out before they are closed
		rows[time.Second], rows[3*time.Second] = time.Second, 3*time.Second // the first are two ticks
	}
	for asked, granted := range rows {
		ttl, _ := openSession(t, server, asked).Granted()
		require.Equal(t, granted, ttl)
	}
}

// TestDigestProtectsEntriesAndTheirQueue: who may delete a node is a matter of its parent's ACL.
func TestDigestProtectsEntriesAndTheirQueue(t *testing.T) {
	server, stranger := begin(t)
	friend := newConn(t, server)
	require.NoError(t, friend.AddAuth("digest", []byte("user:password")))
	options := as("user", "password")
	options.TTL = longest
	options.Namespace = "/queue/digest"
	store := newTapped(t, server, options)
	lease := lock(t, store.Store, "/team/lock")
	node := nodeOf(t, lease)
	only := client.DigestACL(client.PermAll, "user", "password")
	for path, want := range map[string][]client.ACL{
		"/queue/digest/team":      client.WorldACL(client.PermAll), // others may have queues there
		"/queue/digest/team/lock": only, node: only,
	} {
		acl, _, err := friend.GetACL(path)
		require.NoError(t, err)
		require.Equal(t, want, acl, path)
	}
	require.ErrorIs(t, stranger.Delete(node, -1), client.ErrNoAuth)
	_, err := stranger.Set(node, nil, -1)
	require.ErrorIs(t, err, client.ErrNoAuth)
	_, err = farsync.NewMutex(newStore(t, server, nil), "/queue/digest/team/lock").Lock(within(t, soon))
	require.ErrorIs(t, err, client.ErrNoAuth)
	waiter := lockBehind(t, store.Store, "/team/lock")
	store.tap.await(t, opGetData, 1)
	store.tap.sever() // the next connection is told who it is, too
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, waiter).Release())
	_, err = friend.SetACL("/queue/digest/team/lock", client.WorldACL(client.PermAll), -1)
	require.NoError(t, err)
	_, err = farsync.NewMutex(store.Store, "/team/lock").Lock(within(t, soon))
	require.ErrorContains(t, err, "can be written to by everybody", "each join looks")
}

// TestNamespaceIsPutInFront: for others, which may have it as their chroot, the queue is another path.
func TestNamespaceIsPutInFront(t *testing.T) {
	server, conn := begin(t)
	store := newStore(t, server, &zk.Options{Namespace: "/queue/namespace"})
	lease := lock(t, store, "/lock")
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, "/queue/namespace/lock"))
	_, err := farsync.NewMutex(newStore(t, server, nil), "/queue/namespace/lock").TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	list, err := store.Participants(t.Context(), "/lock")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, lease.Release())
}

// TestSurveyShowsNothingThatIsNotAQueue: other programs have ephemeral nodes, too, and persistent ones with numbers.
func TestSurveyShowsNothingThatIsNotAQueue(t *testing.T) {
	server, conn := begin(t)
	store := newStore(t, server, nil)
	for _, path := range []string{
		"/queue/survey/brokers", "/queue/survey/tasks/job-lock-0000000001", "/queue/survey/both/job-lock-0000000001", "/queue/survey/a b",
	} {
		persistent(t, conn, path)
	}
	for _, path := range []string{
		"/queue/survey/brokers/1", "/queue/survey/brokers/my-lock-file", "/queue/survey/both/worker-1", "/queue/survey/both/my-lock-file",
		"/queue/survey/a b/_c_694d7-lock-0000000001",
	} {
		_, err := conn.Create(path, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
		require.NoError(t, err)
	}
	peer := client.NewLock(conn, "/queue/survey/peer", client.WorldACL(client.PermAll))
	require.NoError(t, peer.Lock())
	lease := lock(t, store, "/queue/survey/locked")

	var shown []string
	for lock, err := range store.Survey(within(t, soon), "/queue/survey") {
		require.NoError(t, err)
		require.Len(t, lock.Participants, 1)
		shown = append(shown, lock.Path)
	}
	require.Equal(t, []string{"/queue/survey/locked", "/queue/survey/peer"}, shown)
	require.NoError(t, lease.Release())
	require.NoError(t, peer.Unlock())
}

// TestEndOfTheOneAheadIsAProofOnOneConnection: a server that sets watches again tells of what has gone meanwhile in no order. A
// writer that becomes a reader stands where it stood, and entries of one session may end in one transaction, with it: there the
// list is the proof that follows the event.
func TestEndOfTheOneAheadIsAProofOnOneConnection(t *testing.T) {
	server, _ := begin(t)
	p := newTap(t, server)
	in, other := openSession(t, p.addr(), longest), openSession(t, server, longest)
	remove := func(s driver.Session, e driver.Entry) {
		_, _, err := s.Delete(within(t, soon), e)
		require.NoError(t, err)
	}
	for i, row := range []struct {
		name  string
		of    driver.Session
		kind  driver.Kind
		away  bool
		end   func(s driver.Session, e driver.Entry)
		proof bool
		lists int
		ahead int
	}{
		{"it goes", other, driver.Exclusive, false, remove, true, 0, 0},
		{"it goes while the connection is lost", other, driver.Exclusive, true, remove, false, 0, 0},
		{"it is of the same session", in, driver.Exclusive, false, remove, true, 1, 0},
		{"it becomes a reader", other, driver.Write, false, func(s driver.Session, e driver.Entry) {
			_, err := s.Replace(within(t, soon), e, driver.Read, nil)
			require.NoError(t, err)
		}, true, 1, 1},
	} {
		queue := fmt.Sprint("/queue/proof", i)
		first, second := create(t, row.of, queue, row.kind), create(t, in, queue, row.kind)
		ended, stands := make(chan *driver.View, 1), make(chan struct{})
		ctx := within(t, soon)
		go func() { // ends with its context
			proof, err := in.Watch(ctx, second, []driver.Target{{Entry: first, Alone: true}}, func() { close(stands) })
			if err != nil {
				t.Error(row.name, err)
			}
			ended <- proof
		}()
		got(t, stands)
		p.since()
		if row.away {
			p.outage()
		}
		row.end(row.of, first)
		p.heal()
		proof := got(t, ended)
		require.Equal(t, row.proof, proof != nil, row.name)
		require.Equal(t, row.lists, p.since()[opGetChildren], row.name)
		if row.proof {
			require.Equal(t, second.ID, proof.Self.ID)
			require.True(t, proof.All)
			require.Len(t, proof.Entries, row.ahead, row.name)
		}
	}
}
