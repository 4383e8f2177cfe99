package zktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

// TestOneOfThreeServersIsSilent: a member is stopped, and takes connections and requests all the same. It costs its
// clients some time, and nothing else: what is free is locked, what is contended goes round, what is held stays held for
// longer than a session lives, and what is released is gone.
func TestOneOfThreeServersIsSilent(t *testing.T) {
	noLeaks(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	leader, err := ensemble.Leader(within(t, soon))
	require.NoError(t, err)
	silent := (leader + 1) % 3
	var servers []string
	var taps []*tap
	for _, server := range ensemble.Endpoints() {
		taps = append(taps, newTap(t, server))
		servers = append(servers, taps[len(taps)-1].addr())
	}
	const ttl = 4 * time.Second
	var stores []*farsync.Store
	var held []*farsync.Lease
	for len(stores) < 6 || taps[silent].connections() < 2 {
		store := storeOn(t, servers, withTTL(ttl))
		stores = append(stores, store)
		held = append(held, lock(t, store, fmt.Sprint("/silent/held", len(held))))
	}

	ensemble.Member(silent).Pause()
	begun := time.Now()
	var all errgroup.Group
	for i, store := range stores {
		all.Go(func() error {
			for round := 0; round < 3 || time.Since(begun) < 3*ttl/2; round++ {
				for _, path := range []string{fmt.Sprintf("/silent/free%d.%d", i, round), "/silent/contended"} {
					lease, err := farsync.NewMutex(store, path).Lock(within(t, 2*soon))
					if err != nil {
						return err
					}
					if err := lease.Release(); err != nil {
						return err
					}
				}
			}
			return held[i].Err()
		})
	}
	require.NoError(t, all.Wait())
	for _, lease := range held {
		require.NoError(t, lease.Release())
	}
	conn := newConn(t, ensemble.Member(leader).Endpoint())
	require.Empty(t, nodes(t, conn, "/silent/contended"))
	for i := range held {
		require.Empty(t, nodes(t, conn, fmt.Sprint("/silent/held", i)))
	}
	ensemble.Member(silent).Resume()
}
