package postgrestest_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/postgres"
)

var (
	idles        = flag.Int("idle", 100, "Stores that do nothing")
	acquisitions = flag.Int("acquisitions", 3000, "times that a lock is taken while the sizes of tables are measured")
)

// TestIdleStoresCost one statement for each renewal, which is four a TTL, and no connection each where a proxy lends them.
func TestIdleStoresCost(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.url = embedtest.PgBouncer(t, d.server, "default_pool_size = 8").URL()
	const ttl = 8 * time.Second
	by := new(requests)
	var opening errgroup.Group
	opening.SetLimit(16)
	stores := make([]*farsync.Store, *idles)
	for i := range stores {
		opening.Go(func() (err error) {
			config := d.with(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, by })
			stores[i], err = postgres.Open(within(t, time.Minute), config, d.options(ttl))
			return err
		})
	}
	require.NoError(t, opening.Wait())
	defer func() {
		var closing errgroup.Group
		closing.SetLimit(16)
		for _, store := range stores {
			closing.Go(store.Close)
		}
		require.NoError(t, closing.Wait())
	}()
	began, before := time.Now(), by.n.Load()
	<-time.After(ttl)
	n, took := by.n.Load()-before, time.Since(began)
	per := float64(n) / float64(*idles) / (float64(took) / float64(ttl))
	t.Logf("%d idle Stores: %.0f statements a second, %.2f each in a TTL", *idles, float64(n)/took.Seconds(), per)
	require.LessOrEqual(t, per, 5.0)
	require.LessOrEqual(t, on[int](t, d.server, "SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'"), 8+3)
}

// TestTablesStaySmall however often a lock is taken, where they are vacuumed now and then.
func TestTablesStaySmall(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	stores := []*farsync.Store{d.open(t, time.Minute), d.open(t, time.Minute)}
	size := func() int {
		return on[int](t, d.server, "SELECT sum(pg_total_relation_size(oid))::int FROM pg_class WHERE relname LIKE 'farsync%' AND relkind = 'r'")
	}
	largest := func() string {
		return on[string](t, d.server, `SELECT coalesce(string_agg(relname || ' ' || pg_relation_size(oid) / 1024, ', '), '') FROM (
			SELECT relname, oid FROM pg_class WHERE relname LIKE 'farsync%' AND pg_relation_size(oid) > 64 * 1024 ORDER BY pg_relation_size(oid) DESC LIMIT 4) r`)
	}
	take := func(times int) {
		var all errgroup.Group
		for i, store := range stores {
			all.Go(func() error {
				mu := farsync.NewMutex(store, fmt.Sprint("/small/", i))
				for range times / len(stores) {
					lease, err := mu.Lock(within(t, soon))
					if err == nil {
						err = lease.Release()
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
	}
	const rounds = 6
	for round := range rounds {
		take(*acquisitions / rounds)
		d.exec(t, "VACUUM farsync_entries, farsync_queues, farsync_watches, farsync_sessions")
		t.Logf("after %d acquisitions: %d KB, %s", *acquisitions/rounds*(round+1), size()>>10, largest())
	}
	// What was deleted since the last vacuum still stands there, some 400 bytes an entry with its places in the indexes.
	const empty, each = 512 << 10, 400
	require.LessOrEqual(t, size(), empty+each**acquisitions/rounds, "no more than is deleted between two times")
}
