package zktest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// TestPeers has farsync in one queue with Java Curator, Python's kazoo and the client library's own lock. Each peer is one
// program with many threads.
func TestPeers(t *testing.T) {
	server, conn := begin(t)
	p := peers{
		server: server, conn: conn, store: newStore(t, server, nil),
		curator: newJava(t, "testdata/Curator.java", server), latches: newJava(t, "testdata/Latch.java", server), kazoo: newKazoo(t, server),
	}
	for name, row := range map[string]struct {
		run  func(peers, *testing.T)
		long string
	}{
		"Curator":  {func(p peers, t *testing.T) { p.exclude(t, "/interop/Curator", peerContender{p.curator, "one"}) }, ""},
		"kazoo":    {func(p peers, t *testing.T) { p.exclude(t, "/interop/kazoo", peerContender{p.kazoo, "one"}) }, ""},
		"zk.Lock":  {func(p peers, t *testing.T) { p.exclude(t, "/interop/zkLock", newZKLock(t, server)) }, ""},
		"in order": {peers.standInOrder, ""}, "nothing is lost": {peers.loseNothing, "nine that contend without order, 300 times"},
		"namespace": {peers.chroot, ""}, "readers and writers": {peers.readAndWrite, ""}, "asked": {peers.ask, ""},
		"latches": {peers.elect, ""}, "kinds": {peers.refuse, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if row.long != "" {
				suite.Long(t, suite.ZooKeeper, row.long)
			}
			t.Parallel()
			row.run(p, t)
		})
	}
}

// peers are what farsync shares queues with.
type peers struct {
	server                  string
	conn                    *client.Conn
	store                   *farsync.Store
	curator, latches, kazoo *peer
}

// exclude has one hold the lock and the other wait for it, both ways.
func (p peers) exclude(t *testing.T, path string, them contender) {
	persistent(t, p.conn, path)
	me := newOurs(p.store)
	for _, pair := range [][2]contender{{me, them}, {them, me}} {
		holder, waiter := pair[0], pair[1]
		require.NoError(t, granted(t, holder.lock(t, path)))
		locked := waiter.lock(t, path)
		list := awaitNodes(t, p.conn, path, 2)
		if p, ok := holder.(peerContender); ok {
			p.ask(t, "onlooker"+path, "participants", path)
			p.says(t, "onlooker"+path, "participants 2")
			p.ask(t, "onlooker"+path, "try", path)
			p.says(t, "onlooker"+path, "busy")
		}
		_, err := farsync.NewMutex(p.store, path).TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		awaitNodes(t, p.conn, path, 2)
		require.Empty(t, locked, "two hold at once: %v", list)
		holder.unlock(t, path)
		require.NoError(t, granted(t, locked))
		require.Equal(t, list[1:], awaitNodes(t, p.conn, path, 1))
		waiter.unlock(t, path)
		awaitNodes(t, p.conn, path, 0)
	}
}

// standInOrder: all are served in the order in which they came.
func (p peers) standInOrder(t *testing.T) {
	const path = "/interop/all"
	persistent(t, p.conn, path)
	var queue []contender
	for _, name := range []string{"first", "second"} {
		for _, them := range []contender{peerContender{p.curator, name}, peerContender{p.kazoo, name}, newZKLock(t, p.server)} {
			queue = append(queue, them, newOurs(p.store))
		}
	}
	var locked []<-chan error
	for i, c := range queue {
		locked = append(locked, c.lock(t, path))
		awaitNodes(t, p.conn, path, i+1)
	}
	list, err := p.store.Participants(within(t, soon), path)
	require.NoError(t, err)
	require.Len(t, list, len(queue))
	for i, c := range queue {
		require.NoError(t, granted(t, locked[i]))
		for _, other := range locked[i+1:] {
			require.Empty(t, other, "out of turn")
		}
		c.unlock(t, path)
	}
}

// granted returns how a lock came out.
func granted(t testing.TB, locked <-chan error) error {
	t.Helper()
	select {
	case err := <-locked:
		return err
	case <-time.After(2 * soon):
		require.FailNow(t, "not granted")
		return nil
	}
}

// chroot: the same queue for a client whose root is elsewhere.
func (p peers) chroot(t *testing.T) {
	persistent(t, p.conn, "/interop/chroot/lock")
	them := peerContender{newKazoo(t, p.server+"/interop/chroot"), "main"}
	lease := lock(t, newStore(t, p.server, &zk.Options{Namespace: "/interop/chroot"}), "/lock")
	locked := them.lock(t, "/lock")
	require.Equal(t, nodeOf(t, lease), awaitNodes(t, p.conn, "/interop/chroot/lock", 2)[0])
	require.Empty(t, locked)
	require.NoError(t, lease.Release())
	require.NoError(t, granted(t, locked))
	them.unlock(t, "/lock")
}

// loseNothing: threads of Curator, goroutines of zk.Lock and of farsync add to one number, each reading it, and writing it
// back.
func (p peers) loseNothing(t *testing.T) {
	const path, number, total, each = "/interop/add", "/interop/number", 300, 3
	persistent(t, p.conn, path)
	persistent(t, p.conn, number)
	_, err := p.conn.Set(number, []byte("0"), -1)
	require.NoError(t, err)
	add := func(conn *client.Conn) error {
		data, _, err := conn.Get(number)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err == nil {
			_, err = conn.Set(number, []byte(strconv.Itoa(n+1)), -1)
		}
		return err
	}
	share := func(i int) int { return total*(i+1)/(3*each) - total*i/(3*each) }
	for i := range each {
		p.curator.ask(t, fmt.Sprint("adder", i), "add", path, number, share(i))
	}
	var all sync.WaitGroup
	for i := range each {
		c := newZKLock(t, p.server)
		all.Go(func() {
			for range share(each + i) {
				if err := granted(t, c.lock(t, path)); err != nil {
					t.Error(err)
				}
				if err := add(c.conn); err != nil {
					t.Error(err)
				}
				c.unlock(t, path)
			}
		})
		store, conn := newStore(t, p.server, nil), newConn(t, p.server)
		all.Go(func() {
			mu := farsync.NewMutex(store, path)
			var last farsync.Token
			for range share(2*each + i) {
				lease, err := mu.Lock(within(t, 2*soon))
				if err == nil {
					if lease.Token() <= last {
						t.Errorf("token %d after %d", lease.Token(), last)
					}
					last, err = lease.Token(), add(conn)
				}
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for i := range each {
		p.curator.says(t, fmt.Sprint("adder", i), "added")
	}
	data, _, err := p.conn.Get(number)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(total), string(data))
	require.Empty(t, nodes(t, p.conn, path))
}

// readAndWrite has real InterProcessReadWriteLocks on both sides of ours.
func (p peers) readAndWrite(t *testing.T) {
	reader, writer := peerContender{p.curator, "reader"}, peerContender{p.curator, "writer"}
	persistent(t, p.conn, "/interop/rw")
	rw := farsync.NewRWMutex(p.store, "/interop/rw")
	const read, write = "read:/interop/rw", "write:/interop/rw"

	// A writer of theirs keeps out readers and writers of ours, who then come in order.
	require.NoError(t, granted(t, writer.lock(t, write)))
	_, err := rw.TryRLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	ourReader := behind(t, rw.RLock)
	awaitNodes(t, p.conn, "/interop/rw", 2)
	ourWriter := behind(t, rw.Lock)
	awaitNodes(t, p.conn, "/interop/rw", 3)
	require.Empty(t, ourReader)
	writer.unlock(t, write)
	readLease := got(t, ourReader)

	// A reader of theirs comes in beside ours only ahead of the writer that waits.
	theirReader := reader.lock(t, read)
	awaitNodes(t, p.conn, "/interop/rw", 3)
	require.NoError(t, readLease.Release())
	writeLease := got(t, ourWriter)
	require.Empty(t, theirReader)

	// Ours becomes a reader, and theirs comes in at once; a writer of theirs behind both does not.
	theirWriter := writer.lock(t, write)
	awaitNodes(t, p.conn, "/interop/rw", 3)
	require.NoError(t, rw.Downgrade(t.Context(), writeLease))
	require.NoError(t, granted(t, theirReader))
	require.Empty(t, theirWriter)
	require.NoError(t, writeLease.Err())
	reader.unlock(t, read)
	require.Empty(t, theirWriter)
	require.NoError(t, writeLease.Release())
	require.NoError(t, granted(t, theirWriter))
	writer.unlock(t, write)

	// Readers of both sides at the same time, and a writer of ours behind them.
	both, err := rw.RLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, granted(t, reader.lock(t, read)))
	_, err = rw.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, both.Release())
	reader.unlock(t, read)
	last, err := rw.TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, last.Release())
}

// ask has a Revoker of Curator's ask us, and us ask a lock that is revocable.
func (p peers) ask(t *testing.T) {
	persistent(t, p.conn, "/interop/ask")
	mu := farsync.NewMutex(p.store, "/interop/ask")
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	asked := lease.Asked()
	require.Empty(t, asked)
	says := func(thread, command, on, want string) {
		p.curator.ask(t, thread, command, on)
		p.curator.says(t, thread, want)
	}
	says("asker", "revoke", lease.ID(), "revoked")
	got(t, asked)
	require.NoError(t, lease.Err(), "no holder is forced")
	require.NoError(t, lease.Release())

	says("asker", "revocable", "/interop/ask", "revocable")
	says("asker", "lock", "/interop/ask", "locked")
	require.NoError(t, p.store.Ask(within(t, soon), "/interop/ask"))
	p.curator.says(t, "revocable", "asked")
	says("asker", "unlock", "/interop/ask", "unlocked")
}

// elect: Java Curator's LeaderLatch waits for us and we for it, in the order of arrival, and each reads who leads and who
// stands.
func (p peers) elect(t *testing.T) {
	const path = "/interop/latch"
	persistent(t, p.conn, path)
	election := farsync.NewElection(p.store, path)
	latch := func(id, command, want string) {
		t.Helper()
		p.latches.ask(t, id, command, path)
		p.latches.says(t, id, want)
	}
	campaign := func(value string) chan *farsync.Lease {
		return behind(t, func(ctx context.Context) (*farsync.Lease, error) { return election.Campaign(ctx, value) })
	}
	leads := func(asked, value string) {
		t.Helper()
		leader, err := election.Leader(within(t, soon))
		require.NoError(t, err)
		require.Equal(t, value, leader.Value)
		latch(asked, "leader", "leader "+value)
	}

	// theirs, ours, theirs, ours
	latch("first", "start", "started")
	p.latches.says(t, "first-listener", "leads")
	ours := campaign("ours")
	awaitNodes(t, p.conn, path, 2)
	latch("second", "start", "started")
	awaitNodes(t, p.conn, path, 3)
	last := campaign("last")
	awaitNodes(t, p.conn, path, 4)
	leads("second", "first")
	list, err := p.store.Participants(within(t, soon), path)
	require.NoError(t, err)
	for i, value := range []string{"first", "ours", "second", "last"} {
		require.Equal(t, value, list[i].Holder)
		require.Equal(t, i == 0, list[i].Held)
	}
	latch("second", "participants", "first* last ours second")

	require.Empty(t, ours)
	latch("first", "close", "closed")
	lease := got(t, ours)
	leads("second", "ours")
	require.Empty(t, p.latches.thread("second-listener"), "two lead at once")
	require.NoError(t, lease.Release())
	p.latches.says(t, "second-listener", "leads")
	leads("second", "second")
	require.Empty(t, last)
	latch("second", "close", "closed")
	final := got(t, last)
	require.Greater(t, final.Token(), lease.Token())
	require.NoError(t, election.Proclaim(within(t, soon), final, "last-still")) // no latch waits behind it
	latch("onlooker", "start", "started")
	awaitNodes(t, p.conn, path, 2)
	leads("onlooker", "last-still")
	require.NoError(t, final.Release())
	p.latches.says(t, "onlooker-listener", "leads")
	latch("onlooker", "close", "closed")
	awaitNodes(t, p.conn, path, 0)
}

// primitives are one of each family.
var primitives = map[driver.Kind]func(context.Context, *farsync.Store, string) (*farsync.Lease, error){
	driver.Exclusive: func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewMutex(s, path).Lock(ctx)
	},
	driver.Write: func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewRWMutex(s, path).Lock(ctx)
	},
	driver.Permit: func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewSemaphore(s, path, 2).Acquire(ctx, 1)
	},
	driver.Candidate: func(ctx context.Context, s *farsync.Store, path string) (*farsync.Lease, error) {
		return farsync.NewElection(s, path).Campaign(ctx, "")
	},
}

// refuse: what Curator has on a path is waited for by its own family, and all others are told that the path is another
// kind's.
func (p peers) refuse(t *testing.T) {
	says := func(of *peer, thread, command, path, want string) {
		of.ask(t, thread, command, path)
		of.says(t, thread, want)
	}
	for _, theirs := range []struct {
		name          string
		peer          *peer
		hold, on, met string // the command, its argument before the path, and the answer
		leave, left   string
		family        driver.Kind
	}{
		{"InterProcessMutex", p.curator, "lock", "", "locked", "unlock", "unlocked", driver.Exclusive},
		{"InterProcessReadWriteLock", p.curator, "lock", "write:", "locked", "unlock", "unlocked", driver.Write},
		{"LeaderLatch", p.latches, "start", "", "started", "close", "closed", driver.Candidate},
		{"InterProcessSemaphoreV2", p.curator, "semaphore", "", "acquired", "return", "returned", driver.Foreign},
		{"InterProcessSemaphoreMutex", p.curator, "semaphoremutex", "", "acquired", "return", "returned", driver.Foreign},
	} {
		t.Run(theirs.name, func(t *testing.T) {
			t.Parallel()
			path := "/interop/kind/" + theirs.name
			persistent(t, p.conn, path)
			says(theirs.peer, theirs.name, theirs.hold, theirs.on+path, theirs.met)
			var before []string
			await(t, func() bool { before = nodes(t, p.conn, path); return len(before) > 0 }) // a latch starts in the background
			if theirs.family == driver.Foreign {
				// As the server does to a container that has been empty for a minute.
				await(t, func() bool { return p.conn.Delete(path+"/locks", -1) == nil })
				before = nodes(t, p.conn, path)
			}
			var all sync.WaitGroup
			for kind, lock := range primitives {
				if kind == theirs.family {
					continue
				}
				all.Go(func() {
					ctx := within(t, soon)
					_, err := lock(ctx, p.store, path)
					assert.ErrorIs(t, err, farsync.ErrKind, "%v", kind) //nolint:testifylint // not in the test's goroutine
					if theirs.family == driver.Foreign {
						assert.ErrorContains(t, err, theirs.name) //nolint:testifylint // as above
					}
					assert.NoError(t, ctx.Err())
				})
			}
			all.Wait()
			await(t, func() bool { // nothing is left. The server may remove a container of theirs meanwhile.
				return !slices.ContainsFunc(nodes(t, p.conn, path), func(node string) bool { return !slices.Contains(before, node) })
			})
			if theirs.family == driver.Foreign {
				_, err := farsync.NewMutex(p.store, path).TryLock(within(t, soon))
				require.ErrorIs(t, err, farsync.ErrKind)
				_, err = p.store.Participants(within(t, soon), path)
				require.ErrorIs(t, err, farsync.ErrKind)
				says(theirs.peer, theirs.name, theirs.leave, path, theirs.left)
				require.NoError(t, lock(t, p.store, path).Release(), "no lease is left")
				return
			}
			ours := behind(t, func(ctx context.Context) (*farsync.Lease, error) {
				return primitives[theirs.family](ctx, p.store, path)
			})
			awaitNodes(t, p.conn, path, len(before)+1)
			require.Empty(t, ours)
			says(theirs.peer, theirs.name, theirs.leave, theirs.on+path, theirs.left)
			require.NoError(t, got(t, ours).Release())
		})
	}
}

// TestNodesOfAllKindsStandInOneOrder: whatever a primitive looks for, it sees what others of farsync's and Curator's made.
func TestNodesOfAllKindsStandInOneOrder(t *testing.T) {
	server, conn := begin(t)
	in := openSession(t, server, longest)
	persistent(t, conn, "/kind/order")
	var made []driver.Kind
	for _, name := range []string{"lock-", "_c_x-lock-", "latch-", "_c_x-__READ__", "__WRIT__", "_c_x-permit-2-", "_c_x-lock-"} {
		_, err := conn.Create("/kind/order/"+name, nil, client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
		require.NoError(t, err)
	}
	want := []driver.Kind{
		driver.Exclusive, driver.Exclusive, driver.Candidate, driver.Read, driver.Write, driver.Permit, driver.Exclusive,
	}
	for kind := range primitives {
		made = append(made, kind)
		e := create(t, in, "/kind/order", kind)
		v, err := in.Ahead(within(t, soon), e, false)
		require.NoError(t, err)
		var seen []driver.Kind
		for _, other := range v.Entries {
			seen = append(seen, other.Kind)
		}
		require.Equal(t, slices.Concat(want, made[:len(made)-1]), seen, "as %v sees it", kind)
	}
}

// TestNamesOfCuratorsSemaphoresAloneProveNothing: a queue may have any name.
func TestNamesOfCuratorsSemaphoresAloneProveNothing(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "counts requests, and a request is made again that has no answer within a second")
	server, _ := begin(t)
	store := newTapped(t, server, withTTL(longest))
	for i, below := range [][]string{{"leases"}, {"locks"}, {"leases", "locks"}} {
		for kind, hold := range primitives {
			path := fmt.Sprintf("/kind/alone%d%v", i, kind)
			var held []*farsync.Lease
			for _, name := range below {
				held = append(held, lock(t, store.Store, path+"/"+name))
			}
			store.tap.since()
			lease, err := hold(within(t, soon), store.Store, path)
			require.NoError(t, err)
			asked := store.tap.since()
			require.Equal(t, below[0] == "leases", asked[opGetChildren] > 1, "another read only if permits could be there: %v", asked)
			for _, lease := range append(held, lease) {
				require.NoError(t, lease.Release())
			}
		}
	}
}
