package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestHandOversWatchFromThePresent shows that no contender of ours waits for the loop by which etcd serves late watches
// every 100 ms, as those of concurrency.Mutex do: no watch of ours begins at a revision. How much that is in hand-overs a
// second is for BenchmarkEtcd to say.
func TestHandOversWatchFromThePresent(t *testing.T) {
	server := embedtest.Etcd(t)
	var sent, theirs counter
	dial, theirDial := sent.dial(), theirs.dial()
	var ourLockers, theirLockers []locker
	for range 2 {
		ourLockers = append(ourLockers,
			farsyncLocker{farsync.NewMutex(newStore(t, server.Endpoint(), nil, dial...), "/ours")})
		session, err := concurrency.NewSession(newClient(t, server.Endpoint(), theirDial...))
		require.NoError(t, err)
		defer session.Close()
		theirLockers = append(theirLockers, etcdLocker{concurrency.NewMutex(session, "/theirs")})
	}
	const a, b = 1000, 30
	ourRate, theirRate := rate(t, ourLockers, a), rate(t, theirLockers, b)
	t.Logf("hand-overs a second: farsync %.0f, concurrency.Mutex %.0f: %.0f times", ourRate, theirRate, ourRate/theirRate)
	require.Zero(t, sent.late.Load(), "watches that begin at a revision")
	require.Positive(t, theirs.late.Load())
}

// rate returns how many times a second the contenders have the lock, over n times.
func rate(t *testing.T, contenders []locker, n int) float64 {
	ctx := within(t, time.Minute)
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for _, c := range contenders {
		group.Go(func() error {
			for range n / len(contenders) {
				if err := c.once(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return float64(n) / time.Since(begun).Seconds()
}

// A locker locks and unlocks.
type locker interface {
	once(ctx context.Context) error
}

type farsyncLocker struct{ *farsync.Mutex }

func (l farsyncLocker) once(ctx context.Context) error {
	lease, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Release()
}

type etcdLocker struct{ *concurrency.Mutex }

func (l etcdLocker) once(ctx context.Context) error {
	if err := l.Lock(ctx); err != nil {
		return err
	}
	return l.Unlock(ctx)
}
