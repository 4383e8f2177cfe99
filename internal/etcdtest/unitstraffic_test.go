package etcdtest_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// A unitsTraffic is what contenders for units have sent and were sent.
type unitsTraffic struct {
	events, calls float64 // an acquisition
	overdue       bool    // some have asked again, or looked by themselves
}

// TestTrafficOfAnAcquisitionOfAUnit counts it for 64 contenders for 8 units, with a session each, of which a random one releases, and stands in
// line again when another has acquired. With permits that watch, as those of earlier versions, that is an event for each waiter that could be
// let in; with those that know turns, for the one that is. That one joins, looks, and leaves, and is told: four requests.
func TestTrafficOfAnAcquisitionOfAUnit(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests while waiters may look by themselves")
	watching := trafficOfUnits(t, "permits that watch", true, 48)
	told := trafficOfUnits(t, "permits that are told", false, 256)
	if !told.overdue {
		require.LessOrEqual(t, told.events, 1.1)
		require.LessOrEqual(t, told.calls, 4.1)
		if !watching.overdue {
			require.Less(t, told.events, watching.events/2)
			require.Less(t, told.calls, watching.calls)
		}
	}
}

func trafficOfUnits(t *testing.T, name string, plain bool, acquisitions int) (each unitsTraffic) {
	const size, contenders = 8, 64
	t.Run(name, func(t *testing.T) {
		server := sharedServer(t)
		admin := newClient(t, server.Endpoint())
		var (
			sent     counter
			f        faults
			path     = newPath(t)
			sems     []*farsync.Semaphore
			standing []*locktest.Standing
			grants   = make(chan unitsGrant, contenders)
			all      sync.WaitGroup
		)
		defer all.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := newClient(t, server.Endpoint(), append(sent.dial(), f.dial()...)...)
		for range contenders {
			if plain {
				f.next("/etcdserverpb.Auth/AuthStatus", refuse(rpctypes.ErrGRPCPermissionDenied))
			}
			store, s := standingOn(t, client, 40*turnsAreAwaited)
			sems, standing = append(sems, farsync.NewSemaphore(store, path, size)), append(standing, s)
		}
		join := func(sem *farsync.Semaphore) {
			all.Go(func() {
				lease, err := sem.Acquire(ctx, 1)
				if ctx.Err() == nil {
					grants <- unitsGrant{sem, lease, err}
				}
			})
		}
		stand := func() {
			require.Eventually(t, func() bool {
				resp, err := admin.Get(t.Context(), path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
				stands := int64(0)
				for _, s := range standing {
					stands += s.Now()
				}
				return err == nil && resp.Count == contenders && stands >= contenders-size
			}, soon, time.Millisecond)
		}
		began := time.Now()
		for i, sem := range sems {
			join(sem)
			awaitKeys(t, admin, path, i+1)
		}
		var held []unitsGrant
		for range size {
			held = append(held, <-grants)
			require.NoError(t, held[len(held)-1].err)
		}
		stand()
		resets := func() (n int64) {
			for _, s := range standing {
				n += s.Resets()
			}
			return n
		}
		sent.since()
		before, events := resets(), sent.told.Load()
		for range acquisitions {
			i := rand.N(size)
			require.NoError(t, held[i].lease.Release())
			left := held[i].to
			held[i] = <-grants
			require.NoError(t, held[i].err)
			join(left)
			stand()
		}
		calls, asked := 0, sent.since()
		for method, n := range asked {
			if strings.HasPrefix(method, "KV/") { // others are for the sessions
				calls += n
			}
		}
		each = unitsTraffic{
			events: float64(sent.told.Load()-events) / float64(acquisitions), calls: float64(calls) / float64(acquisitions),
			overdue: resets() > before || time.Since(began) > locktest.LooksAgain,
		}
		t.Logf("%.2f events and %.2f calls an acquisition, %s, overdue: %t: %v",
			each.events, each.calls, time.Since(began).Round(time.Millisecond), each.overdue, asked)
	})
	return each
}

type unitsGrant struct {
	to    *farsync.Semaphore
	lease *farsync.Lease
	err   error
}
