package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// An acquirer is Lock or TryLock.
type acquirer struct {
	name string
	lock func(*farsync.Mutex, context.Context) (*farsync.Lease, error)
}

var acquirers = []acquirer{{"Lock", (*farsync.Mutex).Lock}, {"TryLock", (*farsync.Mutex).TryLock}}

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

// TestLostCreateIsMadeOnce: whatever is lost on the way with its connection, who goes on
// asking gets one node, and the lock.
func TestLostCreateIsMadeOnce(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	for i, row := range []struct {
		name   string
		faults func(p *tap)
	}{
		{"the reply", func(p *tap) { p.onReply(next(opCreate, 1, sever)) }},
		{"the request", func(p *tap) { p.onRequest(next(opCreate, 1, sever)) }},
		{"three requests", func(p *tap) { p.onRequest(next(opCreate, 3, sever)) }},
		{"a request and a reply", func(p *tap) {
			p.onRequest(next(opCreate, 1, sever))
			p.onReply(next(opCreate, 1, sever))
		}},
		{"the queue's request", func(p *tap) { p.onRequest(next(opGetChildren, 1, sever)) }},
		{"the queue", func(p *tap) { p.onReply(next(opGetChildren, 3, sever)) }},
		{"the reply, and the Sync of the search", func(p *tap) {
			p.onRequest(next(opSync, 2, sever))
			p.onReply(next(opCreate, 1, sever))
		}},
		{"the reply, and what is found", func(p *tap) {
			p.onReply(func() func(int32, []byte) verdict {
				create, children := next(opCreate, 1, sever), next(opGetChildren, 2, sever)
				return func(op int32, frame []byte) verdict { return max(create(op, frame), children(op, frame)) }
			}())
		}},
		{"the reply, and whose node it is", func(p *tap) {
			p.onRequest(next(opGetData, 2, sever))
			p.onReply(next(opCreate, 1, sever))
		}},
	} {
		for _, by := range acquirers {
			t.Run(row.name+"/"+by.name, func(t *testing.T) {
				t.Parallel()
				path := fmt.Sprint("/faults/once", i, by.name)
				persistent(t, conn, path)
				store := newTapped(t, nil)
				session := store.tap.sessionID()
				row.faults(store.tap)
				lease, err := by.lock(farsync.NewMutex(store.Store, path), within(t, soon))
				require.NoError(t, err)
				require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
				stat := statOf(t, conn, nodeOf(t, lease))
				require.Equal(t, session, stat.EphemeralOwner, "the session lives on")
				require.Equal(t, stat.Czxid, lease.Token().Revision())
				require.NoError(t, lease.Err())
				require.NoError(t, lease.Release())
				require.Empty(t, nodes(t, conn, path))
			})
		}
	}
}

// TestSearchForALostCreateSeesWhatTheLeaderHasAccepted: another server may not have heard of the create yet, so a
// Sync comes before the look, on the same path.
func TestSearchForALostCreateSeesWhatTheLeaderHasAccepted(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	persistent(t, newConn(t, server.Endpoint()), "/faults/search")
	store := newTapped(t, nil)
	type asked struct {
		op   int32
		path string
	}
	var mu sync.Mutex
	var search []asked
	store.tap.onReply(next(opCreate, 1, sever, func() {
		mu.Lock()
		defer mu.Unlock()
		search = []asked{}
	}))
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		mu.Lock()
		defer mu.Unlock()
		if search != nil && (op == opSync || op == opGetChildren) {
			size := binary.BigEndian.Uint32(frame[12:])
			search = append(search, asked{op, string(frame[16 : 16+size])})
		}
		return pass
	})
	require.NoError(t, lock(t, store.Store, "/faults/search").Release())
	mu.Lock()
	defer mu.Unlock()
	for len(search) > 0 && search[0].op == opGetChildren {
		search = search[1:] // what was asked for together with the create
	}
	require.Equal(t, []asked{{opSync, "/faults/search"}, {opGetChildren, "/faults/search"}}, search)
}

// TestCreateLostAsTheCallerGivesUpIsRemovedBehind is the worst case: the request of a create or its reply is lost, and ctx
// ends while the news of the broken connection is on its way. The session lives on.
func TestCreateLostAsTheCallerGivesUpIsRemovedBehind(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	var all sync.WaitGroup
	for i := range 8 {
		path := fmt.Sprint("/faults/moment", i)
		persistent(t, conn, path)
		store := newTapped(t, nil)
		anchor := lock(t, store.Store, fmt.Sprint("/faults/momentanchor", i))
		all.Go(func() {
			for j := range 20 {
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

// TestLostDeleteIsNoLoss: Release is told that the node is gone already, and knows that it may have been its own
// doing.
func TestLostDeleteIsNoLoss(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	for i, row := range []struct {
		name           string
		request, reply func(int32, []byte) verdict
	}{
		{"the reply", nil, next(opDelete, 1, sever)},
		{"three replies", nil, next(opDelete, 3, sever)},
		{"the request", next(opDelete, 1, sever), nil},
		{"three requests", next(opDelete, 3, sever), nil},
		{"a reply and a request", next(opDelete, 1, sever), next(opDelete, 1, sever)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := fmt.Sprint("/faults/delete", i)
			store := newTapped(t, nil)
			lease := lock(t, store.Store, path)
			store.tap.onRequest(row.request)
			store.tap.onReply(row.reply)
			require.NoError(t, lease.Release())
			require.Empty(t, nodes(t, conn, path))
			require.ErrorIs(t, lease.Release(), farsync.ErrReleased)
		})
	}
}

// TestFrozenServerInTheHandshakeCostsNoSession: the client library waits 6.67 times the timeout for one that
// accepts and says nothing, while there is another.
func TestFrozenServerInTheHandshakeCostsNoSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	frozen := newFrozen(t, "")
	store := storeOn(t, []string{frozen, p.addr()}, withTTL(3*time.Second))
	lease := lock(t, store, "/faults/frozen")
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

// newFrozen returns the address of a server that accepts, says that, and nothing more until t ends.
func newFrozen(t testing.TB, says string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		var conns []net.Conn
		for {
			c, err := listener.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
			_, _ = io.WriteString(c, says)
		}
		for _, c := range conns {
			c.Close()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return listener.Addr().String()
}

// TestBadFramesAreSurvived: in the client library a frame of 8 bytes panics, and the length is believed.
func TestBadFramesAreSurvived(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	for _, length := range []uint32{0, 8, 15, 64 << 20, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		for name, op := range map[string]int32{"handshake": opConnect, "reply": opGetChildren, "event": opEvent} {
			t.Run(fmt.Sprint(name, " of ", length), func(t *testing.T) {
				path := fmt.Sprint("/faults/frame", name, length)
				holder := lock(t, newStore(t, server.Endpoint(), nil), path)
				store := newTapped(t, nil)
				session := store.tap.sessionID()
				store.tap.onReply(func(seen int32, frame []byte) verdict {
					if seen == op {
						binary.BigEndian.PutUint32(frame, length)
						store.tap.onReply(nil)
					}
					return pass
				})
				if op == opConnect {
					store.tap.sever()
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				mine := lockBehind(t, store.Store, path)
				store.tap.await(t, opGetData, 1)
				require.NoError(t, holder.Release())
				lease := got(t, mine)
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
				require.Equal(t, session, store.tap.sessionID())
				require.NoError(t, lease.Release())
			})
		}
	}
}

// TestSiblingsThatAreNoEntriesAreHarmless: the client library's search for a lost create panics at _c_x.
func TestSiblingsThatAreNoEntriesAreHarmless(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/faults/siblings")
	for _, name := range []string{"_c_x", "_c_", "_c_0", "job", "leases", "x y"} {
		persistent(t, conn, "/faults/siblings/"+name)
	}
	store := newTapped(t, nil)
	store.tap.onReply(next(opCreate, 1, sever))
	lease := lock(t, store.Store, "/faults/siblings")
	list, err := farsync.NewMutex(store.Store, "/faults/siblings").Participants(within(t, soon))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, lease.Release())
	require.Len(t, nodes(t, conn, "/faults/siblings"), 6)
}

// TestNodeOfAnotherSessionIsNotTakenForOnesOwn: what a search finds counts only if it goes with
// the session that looks.
func TestNodeOfAnotherSessionIsNotTakenForOnesOwn(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/faults/theirs")
	store := newTapped(t, nil)
	var theirs atomic.Value
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		if op != opCreate {
			return pass
		}
		store.tap.onRequest(nil)
		path := frame[16 : 16+binary.BigEndian.Uint32(frame[12:])]
		made, err := conn.Create(string(path), nil, client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
		if err != nil {
			t.Error(err)
		}
		theirs.Store(made)
		return sever
	})
	granted := lockBehind(t, store.Store, "/faults/theirs")
	store.tap.await(t, opGetData, 2) // the search's, and that of the wait behind it
	require.Empty(t, granted)
	require.NoError(t, conn.Delete(theirs.Load().(string), -1))
	lease := got(t, granted)
	require.NotEqual(t, theirs.Load(), nodeOf(t, lease))
	require.Equal(t, store.tap.sessionID(), statOf(t, conn, nodeOf(t, lease)).EphemeralOwner)
	require.NoError(t, lease.Release())
}

// TestReleaseDuringAnOutageOfTheWaiterIsNotMissed: nobody tells a client what happens while it is away.
func TestReleaseDuringAnOutageOfTheWaiterIsNotMissed(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	for _, digest := range []*zk.Digest{nil, {User: "user", Password: "password"}} {
		path := fmt.Sprint("/faults/away", digest != nil)
		persistent(t, conn, path)
		if digest != nil {
			restrict(t, conn, path)
		}
		for range 3 {
			holder := lock(t, newStore(t, server.Endpoint(), &zk.Options{Digest: digest, PlaintextDigest: true}), path)
			store := newTapped(t, &zk.Options{Digest: digest, PlaintextDigest: true})
			mine := lockBehind(t, store.Store, path)
			store.tap.await(t, opGetData, 1)
			store.tap.outage()
			require.NoError(t, holder.Release())
			store.tap.heal()
			require.NoError(t, got(t, mine).Release())
		}
	}
}

// TestNegativeSequenceIsRefusedAndLeavesNothing: the counter has 31 bits. It takes 2^31 creates to make a server give one; here the tap
// says that it did.
func TestNegativeSequenceIsRefusedAndLeavesNothing(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	path := fmt.Sprint("/faults/negative", time.Now().UnixNano()) // whose first sequence is 0
	persistent(t, conn, path)
	store := newTapped(t, nil)
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

// TestReconnectIsNoRace: on a new connection the client library reads the last zxid, to set its watches again,
// while the first replies write it. The race detector is to stay quiet while connections break all the time, under
// watches and requests, with credentials to be repeated and without.
func TestReconnectIsNoRace(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	const waiters, requesters, breaks = 20, 50, 21
	for _, digest := range []*zk.Digest{nil, {User: "user", Password: "password"}} {
		holders := newStore(t, server.Endpoint(), &zk.Options{Digest: digest, PlaintextDigest: true, Namespace: "/faults/reconnect"})
		store := newTapped(t, &zk.Options{Digest: digest, PlaintextDigest: true, Namespace: "/faults/reconnect"})
		session := store.tap.sessionID()
		var held []*farsync.Lease
		var granted []chan *farsync.Lease
		for i := range waiters {
			path := fmt.Sprintf("/%v%d", digest != nil, i)
			held = append(held, lock(t, holders, path))
			granted = append(granted, lockBehind(t, store.Store, path))
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
					_, err := farsync.NewMutex(store.Store, fmt.Sprintf("/%v%d", digest != nil, i%waiters)).TryLock(within(t, soon))
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
