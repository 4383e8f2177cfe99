package zktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

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
		return farsync.NewElection(s, path).Campaign(ctx, nil)
	},
}

// TestNodesOfAllKindsStandInOneOrder: whatever a primitive looks for, it sees what others of farsync's and Curator's made.
func TestNodesOfAllKindsStandInOneOrder(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), 10*time.Second)
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
		require.Equal(t, append(want, made[:len(made)-1]...), seen, "as %v sees it", kind)
	}
}

// TestCuratorsKindsAreRefusedOrExcluded, with real Curator: what stands on a path is waited for by its own family, and
// all others are told that the path is another kind's.
func TestCuratorsKindsAreRefusedOrExcluded(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	curator := newCurator(t, server.Endpoint(), 10*time.Second)
	latches := newLatches(t, server.Endpoint(), "/kind/latch", 10*time.Second)
	store := newStore(t, server.Endpoint(), nil)
	for _, theirs := range []struct {
		name   string
		path   string
		family driver.Kind
		hold   func(path string)
		leave  func(path string)
	}{
		{"InterProcessMutex", "/kind/mutex", driver.Exclusive, func(path string) {
			require.NoError(t, granted(t, peerContender{curator, "mutex"}.lock(t, path)))
		}, func(path string) { peerContender{curator, "mutex"}.unlock(t, path) }},
		{"InterProcessReadWriteLock", "/kind/rw", driver.Write, func(path string) {
			require.NoError(t, granted(t, peerContender{curator, "rw"}.lock(t, "write:"+path)))
		}, func(path string) { peerContender{curator, "rw"}.unlock(t, "write:"+path) }},
		{"LeaderLatch", "/kind/latch", driver.Candidate, func(string) {
			start(t, latches, "first")
			latches.says(t, "first-listener", "leads")
		}, func(string) {
			latches.ask(t, "first", "close")
			latches.says(t, "first", "closed")
		}},
		{"InterProcessSemaphoreV2", "/kind/v2", driver.Foreign, func(path string) {
			curator.ask(t, "v2", "semaphore", path)
			curator.says(t, "v2", "acquired")
		}, func(path string) {
			curator.ask(t, "v2", "return", path)
			curator.says(t, "v2", "returned")
		}},
		{"InterProcessSemaphoreMutex", "/kind/sm", driver.Foreign, func(path string) {
			curator.ask(t, "sm", "semaphoremutex", path)
			curator.says(t, "sm", "acquired")
		}, func(path string) {
			curator.ask(t, "sm", "return", path)
			curator.says(t, "sm", "returned")
		}},
	} {
		t.Run(theirs.name, func(t *testing.T) {
			persistent(t, conn, theirs.path)
			theirs.hold(theirs.path)
			before := nodes(t, conn, theirs.path)
			for kind, lock := range primitives {
				if kind == theirs.family {
					continue
				}
				ctx := within(t, soon)
				_, err := lock(ctx, store, theirs.path)
				require.ErrorIs(t, err, farsync.ErrKind, "%v", kind)
				require.NoError(t, ctx.Err())
				require.Len(t, nodes(t, conn, theirs.path), len(before), "%v leaves nothing", kind)
				if theirs.family == driver.Foreign {
					require.ErrorContains(t, err, theirs.name)
				}
			}
			if theirs.family == driver.Foreign {
				_, err := farsync.NewMutex(store, theirs.path).TryLock(within(t, soon))
				require.ErrorIs(t, err, farsync.ErrKind)
				_, err = farsync.NewMutex(store, theirs.path).Participants(within(t, soon))
				require.ErrorIs(t, err, farsync.ErrKind)
				theirs.leave(theirs.path)
				require.NoError(t, lock(t, store, theirs.path).Release(), "no lease is left")
				return
			}
			ours := make(chan error, 1)
			ctx := within(t, 2*soon)
			go func() { // ends with its context
				lease, err := primitives[theirs.family](ctx, store, theirs.path)
				if err == nil {
					err = lease.Release()
				}
				ours <- err
			}()
			awaitNodes(t, conn, theirs.path, len(before)+1)
			require.Empty(t, ours)
			theirs.leave(theirs.path)
			require.NoError(t, got(t, ours))
		})
	}
}

// TestNamesOfCuratorsSemaphoresAloneProveNothing: a queue may have any name.
func TestNamesOfCuratorsSemaphoresAloneProveNothing(t *testing.T) {
	sharedServer(t)
	noLeaks(t)
	store := newTapped(t, nil)
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
			require.Equal(t, len(below) == 2, asked[opGetChildren] > 1, "another read only if both are there: %v", asked)
			require.NoError(t, lease.Release())
			for _, lease := range held {
				require.NoError(t, lease.Release())
			}
		}
	}
}
