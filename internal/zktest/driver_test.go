package zktest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
)

// TestReplacementWhoseAnswerIsLostIsFound: the writer's node is gone, and a reader's has its place.
func TestReplacementWhoseAnswerIsLostIsFound(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 10*time.Second)
	for _, lost := range []string{"the reply", "the request"} {
		path := "/driver/replaced/" + lost[4:]
		e := create(t, in, path, driver.Write)
		if lost == "the reply" {
			p.onReply(next(opMulti, 1, sever))
		} else {
			p.onRequest(next(opMulti, 1, sever))
		}
		_, err := in.Replace(within(t, soon), e, driver.Read, nil)
		require.Error(t, err)
		found, err := in.Find(within(t, soon), e)
		require.NoError(t, err)
		require.Equal(t, []string{found.ID}, nodes(t, conn, path))
		require.Equal(t, "storetest", string(found.Value))
		require.Equal(t, e.Revision, found.Revision, "the token's")
		if lost == "the reply" {
			require.Equal(t, driver.Read, found.Kind)
		} else {
			require.Equal(t, driver.Write, found.Kind)
		}
		_, there, err := in.Delete(within(t, soon), e, nil)
		require.NoError(t, err)
		require.True(t, there, "also under the ID that it had")
		require.Empty(t, nodes(t, conn, path))
	}
}

// TestReadsOfACrowdAreShared: each that joins reads the whole queue, and waits for the answers to all others.
func TestReadsOfACrowdAreShared(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	persistent(t, newConn(t, server.Endpoint()), "/driver/crowd")
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 10*time.Second)
	const crowd = 400
	p.since()
	var all errgroup.Group
	for range crowd {
		all.Go(func() error {
			e := driver.Entry{Queue: "/driver/crowd", Kind: driver.Exclusive, Units: 1}
			e.ID = in.NewID(e.Queue, e.Kind, 1)
			_, err := in.Create(within(t, soon), e, 0)
			return err
		})
	}
	require.NoError(t, all.Wait())
	asked := p.since()
	require.Equal(t, crowd, asked[opCreate])
	require.Less(t, asked[opGetChildren], crowd/2)
}

// TestCrowdIsReadOnceAndEntriesLeaveInAnyOrder: what a session knows of a long queue grants nothing that the queue itself
// would not.
func TestCrowdIsReadOnceAndEntriesLeaveInAnyOrder(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 10*time.Second)
	const queue, last = "/driver/leavers", 99
	var crowd []driver.Entry
	for range last + 1 {
		crowd = append(crowd, create(t, in, queue, driver.Candidate))
	}
	look := func(i int) []driver.Entry {
		v, err := in.Ahead(within(t, soon), crowd[i], true)
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

// TestListReadsAsManyNodesAsAreAskedFor: an election of many candidates has one leader to read.
func TestListReadsAsManyNodesAsAreAskedFor(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 10*time.Second)
	for range 20 {
		create(t, in, "/driver/first", driver.Candidate)
	}
	p.since()
	v, err := in.List(within(t, soon), "/driver/first", 1)
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	require.Equal(t, requests{opGetChildren: 1, opGetData: 1}, p.since())
}

// TestParentsAreMadeFromTheBottom: a user may have no right above what is its own, and what it makes above its
// queue is for everybody.
func TestParentsAreMadeFromTheBottom(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	persistent(t, conn, "/driver/bottom/ours")
	_, err := conn.SetACL("/driver/bottom", append(client.DigestACL(client.PermAll, "user", "password"),
		client.WorldACL(client.PermRead)...), -1)
	require.NoError(t, err)
	p := newTap(t, server.Endpoint())
	var made atomic.Int64
	p.onRequest(func(op int32, _ []byte) verdict {
		if op == opContainer {
			made.Add(1)
		}
		return pass
	})
	in := openSession(t, p.addr(), 10*time.Second)
	create(t, in, "/driver/bottom/ours/a/b", driver.Exclusive)
	require.EqualValues(t, 3, made.Load(), "the queue's that fails, the one above, the queue's")
	create(t, in, "/driver/bottom/ours/a/c", driver.Exclusive)
	require.EqualValues(t, 4, made.Load())
}

// TestSurveyIsInTheOrderOfPaths: that of a walk is another, for a slash is higher than a hyphen.
func TestSurveyIsInTheOrderOfPaths(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	in := openSession(t, server.Endpoint(), 10*time.Second)
	paths := []string{"/driver/survey", "/driver/survey-b", "/driver/survey/a", "/driver/survey/lock-b", "/driver/survey0"}
	for i := range paths {
		create(t, in, paths[len(paths)-1-i], driver.Permit)
	}
	for after := range paths {
		list, err := in.Survey(within(t, soon), "/driver/surv", paths[after], 0)
		require.NoError(t, err)
		var seen []string
		for _, e := range list {
			seen = append(seen, e.Queue)
		}
		require.Equal(t, fmt.Sprint(paths[after+1:]), fmt.Sprint(seen))
	}
}

// TestWordsAreCurators: there is one word, and it stands where the value was.
func TestWordsAreCurators(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	in, other := openSession(t, server.Endpoint(), 10*time.Second), openSession(t, server.Endpoint(), 10*time.Second)
	e := create(t, in, "/driver/words", driver.Exclusive)
	heard, err := in.Heard(within(t, soon), e)
	require.NoError(t, err)
	require.Empty(t, heard)
	told := make(chan error, 1)
	go func() { // ends with its context
		_, err := in.Watch(within(t, soon), e, []driver.Target{{Entry: e, What: driver.Told}}, func() {})
		told <- err
	}()
	require.NoError(t, other.Tell(within(t, soon), e, "give it back"))
	require.NoError(t, got(t, told))
	data, _, err := conn.Get(e.ID)
	require.NoError(t, err)
	require.Equal(t, "__REVOKE__", string(data))
	heard, err = in.Heard(within(t, soon), e)
	require.NoError(t, err)
	require.Equal(t, "__REVOKE__", heard)
	_, _, err = in.Delete(within(t, soon), e, nil)
	require.NoError(t, err)
	require.ErrorIs(t, other.Tell(within(t, soon), e, ""), driver.ErrGone)
	_, err = in.Heard(within(t, soon), e)
	require.ErrorIs(t, err, driver.ErrGone)
}

// create creates an entry.
func create(t testing.TB, in driver.Session, queue string, k driver.Kind) driver.Entry {
	t.Helper()
	e := driver.Entry{Queue: queue, ID: in.NewID(queue, k, 1), Kind: k, Units: 1, Value: []byte("storetest")}
	v, err := in.Create(within(t, soon), e, 0)
	require.NoError(t, err)
	return v.Self
}
