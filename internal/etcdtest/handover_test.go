package etcdtest_test

import (
	"testing"

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
	ctx := within(t, 2*soon)
	var ours, theirs counter
	ourDial, theirDial := ours.dial(), theirs.dial()
	var contenders errgroup.Group
	for range 2 {
		mu := farsync.NewMutex(newStore(t, server.Endpoint(), nil, ourDial...), "/ours")
		contenders.Go(func() error {
			for range 500 {
				lease, err := mu.Lock(ctx)
				if err == nil {
					err = lease.Release()
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		session, err := concurrency.NewSession(newClient(t, server.Endpoint(), theirDial...))
		require.NoError(t, err)
		defer session.Close()
		other := concurrency.NewMutex(session, "/theirs")
		contenders.Go(func() error {
			for range 15 {
				if err := other.Lock(ctx); err != nil {
					return err
				}
				if err := other.Unlock(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, contenders.Wait())
	require.Zero(t, ours.late.Load(), "watches that begin at a revision")
	require.Positive(t, theirs.late.Load())
}
