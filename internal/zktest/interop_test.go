package zktest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// TestPeersStandInOneQueue: Java Curator, the client library's zk.Lock and kazoo each exclude farsync, and are excluded
// by it, and all are served in the order in which they came.
func TestPeersStandInOneQueue(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	me := newOurs(t, server.Endpoint())
	peers := map[string]func(t *testing.T) contender{
		"Curator": func(t *testing.T) contender {
			return peerContender{newCurator(t, server.Endpoint(), 10*time.Second), "main"}
		},
		"kazoo":  func(t *testing.T) contender { return peerContender{newKazoo(t, server.Endpoint()), "main"} },
		"zkLock": func(t *testing.T) contender { return newZKLock(t, server.Endpoint()) },
	}
	for name, open := range peers {
		t.Run(name, func(t *testing.T) {
			path := "/interop/" + name
			persistent(t, conn, path)
			them := open(t)
			exclude(t, conn, path, me, them)
			exclude(t, conn, path, them, me)
		})
	}
	t.Run("all", func(t *testing.T) {
		persistent(t, conn, "/interop/all")
		var queue []contender
		for range 2 {
			for _, open := range peers {
				queue = append(queue, open(t), newOurs(t, server.Endpoint()))
			}
		}
		var locked []<-chan error
		for i, c := range queue {
			locked = append(locked, c.lock(t, "/interop/all"))
			awaitNodes(t, conn, "/interop/all", i+1)
		}
		list, err := farsync.NewMutex(me.store, "/interop/all").Participants(within(t, soon))
		require.NoError(t, err)
		require.Len(t, list, len(queue))
		for i, c := range queue {
			require.NoError(t, granted(t, locked[i]))
			for _, other := range locked[i+1:] {
				require.Empty(t, other, "out of turn")
			}
			c.unlock(t, "/interop/all")
		}
	})
}

// exclude has one hold the lock and the other wait for it.
func exclude(t *testing.T, conn *client.Conn, path string, holder, waiter contender) {
	t.Helper()
	require.NoError(t, granted(t, holder.lock(t, path)))
	locked := waiter.lock(t, path)
	list := awaitNodes(t, conn, path, 2)
	if p, ok := holder.(peerContender); ok {
		p.ask(t, "onlooker", "participants", path)
		p.says(t, "onlooker", "participants 2")
		p.ask(t, "onlooker", "try", path)
		p.says(t, "onlooker", "busy")
	}
	awaitNodes(t, conn, path, 2)
	require.Empty(t, locked, "two hold at once: %v", list)
	holder.unlock(t, path)
	require.NoError(t, granted(t, locked))
	require.Equal(t, list[1:], awaitNodes(t, conn, path, 1))
	waiter.unlock(t, path)
	awaitNodes(t, conn, path, 0)
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

// TestTryLockSeesPeers: what they hold is busy.
func TestTryLockSeesPeers(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	me := newStore(t, server.Endpoint(), nil)
	for name, them := range map[string]contender{
		"kazoo":  peerContender{newKazoo(t, server.Endpoint()), "main"},
		"zkLock": newZKLock(t, server.Endpoint()),
	} {
		path := "/interop/try" + name
		require.NoError(t, granted(t, them.lock(t, path)))
		_, err := farsync.NewMutex(me, path).TryLock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrLocked)
		them.unlock(t, path)
		lease, err := farsync.NewMutex(me, path).TryLock(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, lease.Release())
	}
}

// TestNamespaceIsTheChrootOfOthers: the same queue for a client whose root is elsewhere.
func TestNamespaceIsTheChrootOfOthers(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/interop/chroot/lock")
	them := peerContender{newKazoo(t, server.Endpoint()+"/interop/chroot"), "main"}
	lease := lock(t, newStore(t, server.Endpoint(), &zk.Options{Namespace: "/interop/chroot"}), "/lock")
	locked := them.lock(t, "/lock")
	require.Equal(t, nodeOf(t, lease), awaitNodes(t, conn, "/interop/chroot/lock", 2)[0])
	require.Empty(t, locked)
	require.NoError(t, lease.Release())
	require.NoError(t, granted(t, locked))
	them.unlock(t, "/lock")
}

// TestNothingIsLostBetweenPeers: threads of Curator, goroutines of zk.Lock and of farsync add to one number, each reading
// it, and writing it back.
func TestNothingIsLostBetweenPeers(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	const path, number, total, each = "/interop/add", "/interop/number", 600, 3
	persistent(t, conn, path)
	persistent(t, conn, number)
	_, err := conn.Set(number, []byte("0"), -1)
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
	curator := newCurator(t, server.Endpoint(), 10*time.Second)
	for i := range each {
		curator.ask(t, fmt.Sprint("adder", i), "add", path, number, share(i))
	}
	var all sync.WaitGroup
	for i := range each {
		c := newZKLock(t, server.Endpoint())
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
		store, conn := newStore(t, server.Endpoint(), nil), newConn(t, server.Endpoint())
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
		curator.says(t, fmt.Sprint("adder", i), "added")
	}
	data, _, err := conn.Get(number)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(total), string(data))
	require.Empty(t, nodes(t, conn, path))
}
