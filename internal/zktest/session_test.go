package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/zk"
)

// states records what a Store's hook is told.
type states struct {
	mu   sync.Mutex
	told []farsync.State
}

func (s *states) hook(state farsync.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, state)
}

func (s *states) all() []farsync.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

// await waits until the hook was told exactly that.
func (s *states) await(t testing.TB, want ...farsync.State) {
	t.Helper()
	await(t, func() bool { return len(s.all()) >= len(want) })
	require.Equal(t, want, s.all())
}

// until waits until the hook was told that last, whatever it was told before.
func (s *states) until(t testing.TB, last farsync.State) {
	t.Helper()
	await(t, func() bool {
		told := s.all()
		return len(told) > 0 && told[len(told)-1] == last
	})
}

// TestWaiterIsNeverGrantedOnAnExpiredSession: the waiter's session ends, and at the same moment the
// holder leaves, so that the waiter finds nobody ahead. Its node went with its session, before it can be told of either.
func TestWaiterIsNeverGrantedOnAnExpiredSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	holders := newStore(t, server.Endpoint(), nil)
	var all sync.WaitGroup
	for i := range 8 {
		path := fmt.Sprint("/session/expired", i)
		persistent(t, conn, path)
		waiters := newTapped(t, withTTL(2*time.Second))
		all.Go(func() {
			for j := range 6 {
				holder := lock(t, holders, path)
				watching := make(chan struct{})
				waiters.tap.onReply(next(opGetData, 1, pass, func() { close(watching) }))
				waiter := lockBehind(t, waiters.Store, path)
				old, session := awaitNodes(t, conn, path, 2)[1], waiters.tap.sessionID()
				got(t, watching) // else the holder may be gone when it begins to
				if j%2 == 0 {
					waiters.tap.expire(t)
					require.NoError(t, holder.Release())
				} else {
					released := make(chan struct{})
					waiters.tap.onReply(next(opEvent, 1, pass, func() { <-released }))
					require.NoError(t, holder.Release())
					waiters.tap.expire(t)
					close(released)
				}
				lease := got(t, waiter)
				require.NotEqual(t, old, nodeOf(t, lease))
				stat := statOf(t, conn, nodeOf(t, lease))
				require.NotEqual(t, session, stat.EphemeralOwner)
				require.Equal(t, stat.Czxid, lease.Token().Revision())
				require.NoError(t, lease.Release())
				waiters.tap.since()
			}
		})
	}
	all.Wait()
}

// TestExpiredWaiterJoinsAgain, while the holder holds on.
func TestExpiredWaiterJoinsAgain(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/session/again")
	var told states
	store := newTapped(t, &zk.Options{Options: farsync.Options{TTL: 2 * time.Second, OnState: told.hook}})
	waiter := lockBehind(t, store.Store, "/session/again")
	old := awaitNodes(t, conn, "/session/again", 2)[1]
	store.tap.expire(t)
	var again string
	await(t, func() bool {
		list := nodes(t, conn, "/session/again")
		again = list[len(list)-1]
		return len(list) == 2 && again != old
	})
	require.Empty(t, waiter)
	told.await(t, farsync.Connected, farsync.Lost, farsync.Connected)
	require.NoError(t, holder.Release())
	lease := got(t, waiter)
	require.Equal(t, again, nodeOf(t, lease))
	require.NoError(t, lease.Release())
}

// TestRequestQueuedWhileDisconnectedNeverRunsInAnotherSession: the client library keeps what was not sent for its next session.
func TestRequestQueuedWhileDisconnectedNeverRunsInAnotherSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	for _, stays := range []bool{true, false} {
		t.Run(fmt.Sprint("the caller stays ", stays), func(t *testing.T) {
			path := fmt.Sprint("/session/queued", stays)
			persistent(t, conn, path)
			store := newTapped(t, withTTL(2*time.Second))
			first := store.tap.sessionID()
			var creates atomic.Int64
			store.tap.onRequest(func(op int32, frame []byte) verdict {
				if op == opCreate && bytes.Contains(frame, []byte(path+"/_c_")) {
					creates.Add(1)
				}
				return pass
			})
			store.tap.outage()
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			locked := make(chan *farsync.Lease, 1)
			go func() {
				lease, err := farsync.NewMutex(store.Store, path).Lock(ctx)
				if stays && err != nil {
					t.Error(err)
				}
				locked <- lease
			}()
			pause(t, 100*time.Millisecond)
			if !stays {
				giveUp()
				require.Nil(t, <-locked)
			}
			store.tap.expire(t)
			store.tap.heal()
			if stays {
				lease := got(t, locked)
				require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
				require.Equal(t, store.tap.sessionID(), statOf(t, conn, nodeOf(t, lease)).EphemeralOwner)
				require.NoError(t, lease.Release())
			} else {
				require.NoError(t, lock(t, store.Store, path+"/after").Release())
				require.NotEqual(t, first, store.tap.sessionID())
				require.Zero(t, creates.Load())
			}
		})
	}
}

// TestRenewalsProveOneAnotherAQuarterOfTheTTLApart: an answer of the leader's proves that it has heard of the request
// before if a heartbeat of the follower lies between. Syncs that look for a lost create come at any time. Here one comes
// right after a renewal.
func TestRenewalsProveOneAnotherAQuarterOfTheTTLApart(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	in := openSession(t, server.Endpoint(), 2*time.Second)
	e := create(t, in, "/session/apart", driver.Exclusive)
	ttl, _ := in.Granted()
	for _, prove := range [][]driver.Entry{nil, {e}, {{ID: e.ID + "0"}}} { // the last of them is not there
		var sent [2]time.Time
		for i := range sent {
			pause(t, ttl/4+10*time.Millisecond)
			sent[i] = time.Now()
			require.NoError(t, in.Renew(within(t, soon), prove))
		}
		_, err := in.Find(within(t, soon), e) // after a Sync
		require.NoError(t, err)
		_, from := in.Granted()
		require.False(t, from.Before(sent[0]), "the second proves the first")
		require.True(t, from.Before(sent[1]), "the Sync that follows proves nothing")
	}
}

// TestSyncsProveNothingWhileProposalsAreAskedFor: a leader that is cut off answers Syncs, and no proposals.
func TestSyncsProveNothingWhileProposalsAreAskedFor(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 2*time.Second)
	e := create(t, in, "/session/proposals", driver.Exclusive)
	ttl, _ := in.Granted()
	pause(t, ttl/4+10*time.Millisecond)
	require.NoError(t, in.Renew(within(t, soon), []driver.Entry{e}))
	_, from := in.Granted()
	p.onReply(func(op int32, _ []byte) verdict {
		if op == opMulti {
			return drop
		}
		return pass
	})
	for range 2 {
		pause(t, ttl/4+10*time.Millisecond)
		require.Error(t, in.Renew(within(t, ttl/20), []driver.Entry{e}))
		_, err := in.Find(within(t, soon), e) // after a Sync
		require.NoError(t, err)
		_, now := in.Granted()
		require.Equal(t, from, now)
	}
	require.NoError(t, in.Renew(within(t, soon), nil))
	_, now := in.Granted()
	require.Greater(t, now, from, "it is the caller who asks for proposals")
}

// TestQuorumProvesAHoldBeforeItBegins has a waiter, whose session is kept by Syncs: the leader that answers them may
// be cut off, and the news that the lock is free come from before that.
func TestQuorumProvesAHoldBeforeItBegins(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/session/begins")
	store := newTapped(t, withTTL(2*time.Second))
	granted := lockBehind(t, store.Store, "/session/begins")
	store.tap.await(t, opGetData, 1)
	store.tap.await(t, opSync, 3)
	store.tap.onReply(next(opMulti, 2, drop))
	require.NoError(t, holder.Release())
	await(t, func() bool { return store.tap.requests(opMulti) > 1 || len(granted) > 0 })
	require.Empty(t, granted, "by the word of a leader alone")
	lease := got(t, granted)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// openSession opens a session of the driver's own, closed by t.
func openSession(t testing.TB, server string, ttl time.Duration) driver.Session {
	t.Helper()
	service, err := zk.NewService([]string{server}, nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, in.Close(ctx))
		require.NoError(t, service.Close())
	})
	return in
}

// TestServerThatAnswersNoSyncsIsLeft: a server that is cut off from its leader answers pings, so that the
// client library is content with it, and reads. Another may do better, while the session lives.
func TestServerThatAnswersNoSyncsIsLeft(t *testing.T) {
	sharedServer(t)
	noLeaks(t)
	var told states
	store := newTapped(t, &zk.Options{Options: farsync.Options{TTL: 3 * time.Second, OnState: told.hook}})
	lease := lock(t, store.Store, "/session/left")
	var handshakes atomic.Int64
	store.tap.onReply(func(op int32, _ []byte) verdict {
		switch {
		case op == opConnect:
			handshakes.Add(1)
		case (op == opSync || op == opMulti) && handshakes.Load() == 0:
			return drop
		}
		return pass
	})
	told.await(t, farsync.Connected, farsync.Suspended, farsync.Connected)
	require.EqualValues(t, 1, handshakes.Load())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestSessionThatAnotherServerShortensIsLost: the deadline counts on the timeout that was granted first.
func TestSessionThatAnotherServerShortensIsLost(t *testing.T) {
	sharedServer(t)
	noLeaks(t)
	store := newTapped(t, withTTL(3*time.Second))
	lease := lock(t, store.Store, "/session/shortened")
	store.tap.onReply(func(op int32, frame []byte) verdict {
		if op == opConnect {
			binary.BigEndian.PutUint32(frame[8:], 2000)
			store.tap.onReply(nil)
		}
		return pass
	})
	store.tap.sever()
	ended(t, lease)
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.ErrorContains(t, lease.Err(), "less time")
	require.NoError(t, lock(t, store.Store, "/session/goeson").Release())
}

// TestParticipantsSurviveTheLossOfTheSession: the question goes on in the next session.
func TestParticipantsSurviveTheLossOfTheSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	holder := lock(t, newStore(t, server.Endpoint(), nil), "/session/participants")
	store := newTapped(t, withTTL(2*time.Second))
	store.tap.onRequest(next(opGetData, 1, drop, func() { store.tap.expire(t) }))
	list, err := farsync.NewMutex(store.Store, "/session/participants").Participants(within(t, soon))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, holder.Release())
}

// TestCloseWaitsForAnOpenThatFails: the Store is between two sessions, and no goroutine of its is left behind.
func TestCloseWaitsForAnOpenThatFails(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	p.outage()
	before := goleak.IgnoreCurrent()
	p.heal()
	var told states
	store, err := zk.Open(within(t, soon), []string{p.addr()}, &zk.Options{Options: farsync.Options{TTL: time.Second, OnState: told.hook}})
	require.NoError(t, err)
	p.outage()
	told.await(t, farsync.Connected, farsync.Suspended, farsync.Lost)
	pause(t, 300*time.Millisecond) // it tries, and then some
	require.NoError(t, store.Close())
	require.NoError(t, goleak.Find(before))
}
