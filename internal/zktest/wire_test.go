package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// next has the next n frames of an operation come to that, and calls also before each.
func next(op int32, n int64, to verdict, also ...func()) func(int32, []byte) verdict {
	var left atomic.Int64
	left.Store(n)
	return func(seen int32, _ []byte) verdict {
		if seen != op || left.Add(-1) < 0 {
			return pass
		}
		for _, f := range also {
			f()
		}
		return to
	}
}

// TestWhatIsLostOnTheWayIsDoneOnce: whatever is lost with its connection, of a Lock, which goes on asking, and of a Release.
// There is one node, and then none. Release is told that the node is gone already, and knows that it may have been its own doing.
func TestWhatIsLostOnTheWayIsDoneOnce(t *testing.T) {
	server, conn := begin(t)
	for i, row := range []struct {
		name           string
		request, reply func(int32, []byte) verdict
	}{
		{"the reply to a create", nil, next(opCreate, 1, sever)},
		{"three requests to create", next(opCreate, 3, sever), nil},
		{"a request to create and a reply", next(opCreate, 1, sever), next(opCreate, 1, sever)},
		{"the queue's request", next(opGetChildren, 1, sever), nil},
		{"the queue", nil, next(opGetChildren, 3, sever)},
		{"the reply, and the Sync of the search", next(opSync, 2, sever), next(opCreate, 1, sever)},
		{"the reply, and what is found", nil, func() func(int32, []byte) verdict {
			create, children := next(opCreate, 1, sever), next(opGetChildren, 2, sever)
			return func(op int32, frame []byte) verdict { return max(create(op, frame), children(op, frame)) }
		}()},
		{"the reply, and whose node it is", next(opGetData, 2, sever), next(opCreate, 1, sever)},
		{"three replies to a delete", nil, next(opDelete, 3, sever)},
		{"three requests to delete", next(opDelete, 3, sever), nil},
		{"a reply to a delete and a request", next(opDelete, 1, sever), next(opDelete, 1, sever)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := fmt.Sprint("/wire/once", i)
			persistent(t, conn, path)
			store := newTapped(t, server, withTTL(longest))
			session := store.tap.sessionID()
			store.tap.onRequest(row.request)
			store.tap.onReply(row.reply)
			lease := lock(t, store.Store, path)
			require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
			stat := statOf(t, conn, nodeOf(t, lease))
			require.Equal(t, session, stat.EphemeralOwner, "the session lives on")
			require.Equal(t, stat.Czxid, lease.Token().Revision())
			require.NoError(t, lease.Release())
			require.Empty(t, nodes(t, conn, path))
			require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
		})
	}
}

// TestSearchForALostCreateIsOfOnesOwn: another server may not have heard of the create yet, so a Sync comes before the look, on
// the same path. And what is found counts only if it goes with the session that looks.
func TestSearchForALostCreateIsOfOnesOwn(t *testing.T) {
	server, conn := begin(t)
	const path = "/wire/search"
	persistent(t, conn, path)
	store := newTapped(t, server, withTTL(longest))
	var theirs atomic.Value
	var mu sync.Mutex
	var search []int32
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		mu.Lock()
		defer mu.Unlock()
		if theirs.Load() != nil {
			if (op == opSync || op == opGetChildren) && strings.Contains(string(frame), path) {
				search = append(search, op)
			}
			return pass
		}
		if op != opCreate {
			return pass
		}
		made, err := conn.Create(string(frame[16:16+binary.BigEndian.Uint32(frame[12:])]), nil,
			client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
		if err != nil {
			t.Error(err)
		}
		theirs.Store(made)
		return sever
	})
	granted := lockBehind(t, store.Store, path)
	store.tap.await(t, opGetData, 2) // the search's, and that of the wait behind it
	require.Empty(t, granted)
	mu.Lock()
	require.Equal(t, []int32{opSync, opGetChildren}, search[:2])
	mu.Unlock()
	require.NoError(t, conn.Delete(theirs.Load().(string), -1))
	lease := got(t, granted)
	require.NotEqual(t, theirs.Load(), nodeOf(t, lease))
	require.Equal(t, store.tap.sessionID(), statOf(t, conn, nodeOf(t, lease)).EphemeralOwner)
	require.NoError(t, lease.Release())
}

// TestCreateLostAsTheCallerGivesUpIsRemoved is the worst case: the request of a create or its reply is lost, and ctx
// ends while the news of the broken connection is on its way. The session lives on.
func TestCreateLostAsTheCallerGivesUpIsRemoved(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "callers give up at random moments while connections break")
	server, conn := begin(t)
	var all sync.WaitGroup
	for i := range 8 {
		path := fmt.Sprint("/wire/moment", i)
		persistent(t, conn, path)
		store := newTapped(t, server, nil)
		anchor := lock(t, store.Store, fmt.Sprint("/wire/momentanchor", i))
		all.Go(func() {
			for j := range 12 {
				ctx, giveUp := context.WithCancel(t.Context())
				fault := next(opCreate, 1, sever, func() { time.AfterFunc(time.Duration(i+8*j)*4*time.Microsecond, giveUp) })
				if j%4 == 3 {
					store.tap.onRequest(fault)
				} else {
					store.tap.onReply(fault)
				}
				if lease, err := farsync.NewMutex(store.Store, path).Lock(ctx); err == nil {
					_ = lease.Release() // its search was quicker
				}
				giveUp()
				// It is not in the way of the next, who would wait for as long as the session lives.
				lease, err := farsync.NewMutex(store.Store, path).Lock(within(t, soon))
				if err != nil {
					t.Error(err)
					return
				}
				_ = lease.Release()
			}
			if err := anchor.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestRequestQueuedWhileDisconnectedNeverRunsInAnotherSession: it would make an entry of a session that nothing here keeps.
func TestRequestQueuedWhileDisconnectedNeverRunsInAnotherSession(t *testing.T) {
	server, conn := begin(t)
	for _, stays := range []bool{true, false} {
		path := fmt.Sprint("/wire/queued", stays)
		persistent(t, conn, path)
		store := newTapped(t, server, withTTL(longest))
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
		giveUp()
	}
}

// TestBadFramesAreSurvived: no length is believed, nor a count of names. Of an answer to a Multi nothing is read but its header. A
// connection on which an answer is to another request than the next, or an event tells of nothing, is given up at once: what was
// lost on it would be waited for.
func TestBadFramesAreSurvived(t *testing.T) {
	server, _ := begin(t)
	type fault struct {
		op    int32
		spoil func(frame []byte)
	}
	faults := map[string]fault{
		"a count of names": {opGetChildren, func(frame []byte) { binary.BigEndian.PutUint32(frame[20:], 1<<32-1) }},
		"a length of data": {opGetData, func(frame []byte) { binary.BigEndian.PutUint32(frame[20:], 1<<31-1) }},
		"a Multi without an end": {opMulti, func(frame []byte) { // in the middle of a result
			binary.BigEndian.PutUint32(frame, 16+9+4)
		}},
	}
	faults["the path of an event"] = fault{opEvent, func(frame []byte) { binary.BigEndian.PutUint32(frame[28:], 1<<31-1) }}
	faults["an event cut short"] = fault{opEvent, func(frame []byte) { binary.BigEndian.PutUint32(frame[28:], uint32(len(frame))) }}
	for name, op := range map[string]int32{"a create": opCreate, "a list": opGetChildren, "a read": opGetData} {
		for than, by := range map[string]uint32{"younger": 1, "older": 1<<32 - 1, "none": 1 << 20} {
			faults[fmt.Sprint("an answer to another than ", name, ", ", than)] = fault{op, func(frame []byte) {
				binary.BigEndian.PutUint32(frame[4:], binary.BigEndian.Uint32(frame[4:])+by)
			}}
		}
	}
	for _, length := range []uint32{0, 8, 15, 64 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		for name, op := range map[string]int32{"handshake": opConnect, "reply": opGetChildren, "event": opEvent} {
			faults[fmt.Sprint(name, " of ", length)] = fault{op, func(frame []byte) { binary.BigEndian.PutUint32(frame, length) }}
		}
	}
	holders := newStore(t, server, nil)
	for name, row := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/wire/" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
			holder := lock(t, holders, path)
			store := newTapped(t, server, withTTL(10*time.Second))
			session, other := store.tap.sessionID(), lock(t, store.Store, path+"-other")
			var spoilt atomic.Bool
			store.tap.onReply(func(op int32, frame []byte) verdict {
				if op == row.op && len(frame) > 24 && !spoilt.Swap(true) {
					row.spoil(frame)
				}
				return pass
			})
			if row.op == opConnect {
				store.tap.sever()
			}
			mine := lockBehind(t, store.Store, path)
			if row.op == opEvent {
				node := holder.ID()
				await(t, func() bool { return slices.Contains(listed(t, "wchc", session), node) })
			} else {
				await(t, spoilt.Load)
			}
			require.NoError(t, holder.Release())
			require.NoError(t, got(t, mine).Release())
			require.True(t, spoilt.Load())
			require.NoError(t, other.Release())
			require.Equal(t, session, store.tap.sessionID())
		})
	}
}

// TestAnswerThatIsLostIsNoticedByTheNext: the connection goes on without it, and the answers that follow arrive.
func TestAnswerThatIsLostIsNoticedByTheNext(t *testing.T) {
	server, _ := begin(t)
	for name, op := range map[string]int32{"create": opCreate, "list": opGetChildren, "read": opGetData} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := "/wire/lost-" + name
			holder := lock(t, newStore(t, server, withTTL(longest)), path)
			store := newTapped(t, server, withTTL(longest))
			session, other := store.tap.sessionID(), lock(t, store.Store, path+"-other")
			lost := make(chan struct{})
			store.tap.onReply(next(op, 1, drop, func() { close(lost) }))
			mine := lockBehind(t, store.Store, path)
			got(t, lost)
			require.NoError(t, lock(t, store.Store, path+"-next").Release())
			require.NoError(t, holder.Release())
			require.NoError(t, got(t, mine).Release())
			require.NoError(t, other.Release())
			require.Equal(t, session, store.tap.sessionID())
		})
	}
}

// TestQueueThatIsTooLongIsAnErrorOfThatCall: the answer is longer than anything a peer may have us allocate. The
// locks of the Store live on. No other test runs beside it: answers of that length make the server pause.
func TestQueueThatIsTooLongIsAnErrorOfThatCall(t *testing.T) {
	server := sharedServer(t).Endpoint()
	locktest.NoLeaks(t)
	conn := newConn(t, server)
	persistent(t, conn, "/wire/long")
	const names, size = 180, 100_000
	for i := range names {
		path := fmt.Sprintf("/wire/long/%d%s", i, strings.Repeat("x", size))
		_, err := conn.Create(path, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
		require.NoError(t, err)
	}
	store := newTapped(t, server, withTTL(longest))
	session, lease := store.tap.sessionID(), lock(t, store.Store, "/wire/other")
	ctx := within(t, soon)
	_, err := farsync.NewMutex(store.Store, "/wire/long").TryLock(ctx)
	require.ErrorContains(t, err, "longer than 16 MiB")
	require.NoError(t, ctx.Err())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.Equal(t, session, store.tap.sessionID())
}

// TestReleaseDuringAnOutageOfTheWaiterIsNotMissed: a client is not told what happens while it is away.
func TestReleaseDuringAnOutageOfTheWaiterIsNotMissed(t *testing.T) {
	server, conn := begin(t)
	require.NoError(t, conn.AddAuth("digest", []byte("user:password")))
	for _, options := range []*zk.Options{nil, as("user", "password")} {
		path := fmt.Sprint("/wire/away", options != nil)
		persistent(t, conn, path)
		if options != nil {
			restrict(t, conn, path, client.DigestACL(client.PermAll, "user", "password"), client.PermRead)
		}
		for range 3 {
			holder := lock(t, newStore(t, server, options), path)
			store := newTapped(t, server, options)
			mine := lockBehind(t, store.Store, path)
			store.tap.await(t, opGetData, 1)
			store.tap.outage()
			require.NoError(t, holder.Release())
			store.tap.heal()
			require.NoError(t, got(t, mine).Release())
		}
	}
}

// A call whose context has ended sends no request. An answer that came at once would make it succeed.
func TestCallOfAnEndedContextAsksForNothing(t *testing.T) {
	server, _ := begin(t)
	p := newTap(t, server)
	in := openSession(t, p.addr(), time.Minute)
	e := create(t, in, "/wire/ended", driver.Exclusive)
	p.since()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(ctx context.Context) error{
		"Ahead":  func(ctx context.Context) error { _, err := in.Ahead(ctx, e, true); return err },
		"List":   func(ctx context.Context) error { _, err := in.List(ctx, e.Queue, 0); return err },
		"Delete": func(ctx context.Context) error { _, _, err := in.Delete(ctx, e); return err },
		"Renew":  func(ctx context.Context) error { return in.Renew(ctx, []driver.Entry{e}) },
	} {
		require.ErrorIs(t, call(ended), context.Canceled, name)
	}
	_, err := in.Find(within(t, soon), e) // sent after all that was asked for before
	require.NoError(t, err)
	require.Equal(t, map[int32]int{opGetData: 1}, p.since())
}

// TestListAfterAnEventIsLost: the waiter, which that list was to wake, asks again.
func TestListAfterAnEventIsLost(t *testing.T) {
	server, _ := begin(t)
	other := openSession(t, server, longest)
	for name, lose := range map[string]func(p *tap, f func(op int32, frame []byte) verdict){
		"request": (*tap).onRequest, "answer": (*tap).onReply,
	} {
		path := "/wire/list-" + name
		first, second := create(t, other, path, driver.Exclusive), create(t, other, path, driver.Exclusive)
		store := newTapped(t, server, withTTL(longest))
		mine := lockBehind(t, store.Store, path)
		store.tap.await(t, opGetData, 1)
		lost := make(chan struct{})
		lose(store.tap, next(opGetChildren, 1, sever, func() { close(lost) }))
		for _, e := range []driver.Entry{first, second} {
			_, found, err := other.Delete(within(t, soon), e)
			require.NoError(t, err)
			require.True(t, found)
		}
		got(t, lost)
		require.NoError(t, got(t, mine).Release())
	}
}

// TestChangeBetweenTwoLostConnectionsIsTold: the second is lost before the request arrives that sets the watches again.
func TestChangeBetweenTwoLostConnectionsIsTold(t *testing.T) {
	server, _ := begin(t)
	other := openSession(t, server, longest)
	p := newTap(t, server)
	in := openSession(t, p.addr(), longest)
	e := create(t, other, "/wire/untold", driver.Candidate)
	told, stands := make(chan error, 1), make(chan struct{})
	ctx := within(t, soon)
	go func() { // ends with its context
		_, err := in.Watch(ctx, driver.Entry{}, []driver.Target{{Entry: e, What: driver.Changed}}, func() { close(stands) })
		told <- err
	}()
	got(t, stands)
	p.outage()
	_, err := other.Replace(within(t, soon), e, e.Kind, []byte("untold"))
	require.NoError(t, err)
	lost := make(chan struct{})
	p.onRequest(next(opSetWatches, 1, sever, func() { close(lost) }))
	p.heal()
	got(t, lost)
	require.NoError(t, got(t, told))
}

// TestReconnectIsNoRace: connections break all the time, under watches and requests, with credentials to be repeated and
// without. Every request is answered for what it was, and every watch stands.
func TestReconnectIsNoRace(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "breaks connections all the time under requests")
	server, _ := begin(t)
	const waiters, requesters, breaks = 20, 20, 12
	for name, options := range map[string]*zk.Options{"plain": {}, "user": as("user", "password")} {
		options.Namespace = "/wire/reconnect/" + name
		holders, store := newStore(t, server, options), newTapped(t, server, options)
		session := store.tap.sessionID()
		var held []*farsync.Lease
		var granted []chan *farsync.Lease
		for i := range waiters {
			held = append(held, lock(t, holders, fmt.Sprint("/", i)))
			granted = append(granted, lockBehind(t, store.Store, fmt.Sprint("/", i)))
		}
		store.tap.await(t, opGetData, waiters)
		var all sync.WaitGroup
		over := make(chan struct{})
		for i := range requesters {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					_, err := farsync.NewMutex(store.Store, fmt.Sprint("/", i)).TryLock(within(t, soon))
					if !errors.Is(err, farsync.ErrLocked) {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range breaks {
			store.tap.since()
			store.tap.sever()
			store.tap.await(t, opGetChildren, 1+i%3*10) // now and then before all watches are set again
		}
		close(over)
		all.Wait()
		require.Equal(t, session, store.tap.sessionID())
		for i, lease := range held {
			require.NoError(t, lease.Release())
			require.NoError(t, got(t, granted[i]).Release())
		}
	}
}

// TestFrozenServerInTheHandshakeCostsNoSession: one that accepts and says nothing is left in time for another.
func TestFrozenServerInTheHandshakeCostsNoSession(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "a server that says nothing must be left within a TTL of 6 s")
	server, _ := begin(t)
	p := newTap(t, server)
	store := storeOn(t, []string{locktest.Speaking(t, ""), p.addr()}, withTTL(6*time.Second))
	lease := lock(t, store, "/wire/frozen")
	session := p.sessionID()
	for range 3 {
		p.since()
		p.sever()
		p.await(t, opMulti, 1)
		require.NoError(t, lease.Err())
		require.Equal(t, session, p.sessionID())
	}
	require.NoError(t, lease.Release())
}
