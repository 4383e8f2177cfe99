package postgrestest_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

var (
	idles        = flag.Int("idle", 100, "Stores that do nothing")
	acquisitions = flag.Int("acquisitions", 3000, "times that a lock is taken while the sizes of tables are measured")
)

// TestIdleStoresCost one request for each renewal, which is four a TTL, and no connection each where a proxy lends them.
func TestIdleStoresCost(t *testing.T) {
	suite.Long(t, suite.Postgres, "counts the requests of 100 Stores that renew")
	t.Parallel()
	d := newServer(t)
	d.url = embedtest.PgBouncer(t, d.server, "default_pool_size = 8").URL()
	const ttl = 8 * time.Second
	by := new(requests)
	locktest.OpenMany(t, *idles, func() (*farsync.Store, error) {
		config := d.with(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, by })
		return postgres.Open(within(t, time.Minute), config, d.options(ttl))
	})
	began, before := time.Now(), by.n.Load()
	<-time.After(ttl)
	n, took := by.n.Load()-before, time.Since(began)
	per := float64(n) / float64(*idles) / (float64(took) / float64(ttl))
	t.Logf("%d idle Stores: %.0f requests a second, %.2f each in a TTL", *idles, float64(n)/took.Seconds(), per)
	require.LessOrEqual(t, per, 5.0)
	require.Greater(t, per, 1.0, "renewals are counted")
	require.LessOrEqual(t, on[int](t, d.server, "SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'"), 8+3)
}

// TestTablesStaySmall however often locks are taken, where the tables are vacuumed now and then. A loop at the server takes them, with
// the statements and the transactions of a Lock and a Release.
func TestTablesStaySmall(t *testing.T) {
	suite.Long(t, suite.Postgres, "takes locks thousands of times")
	t.Parallel()
	d := newServer(t)
	d.exec(t, "INSERT INTO farsync_sessions VALUES ('job', farsync_begin_1(3600000000), 3600000000)")
	locktest.Growth{
		Acquisitions: *acquisitions,
		Take: func(worker, times int) error {
			_, err := d.admin.Exec(within(t, soon), fmt.Sprintf(`DO $$
				DECLARE of_id text;
				BEGIN
					FOR i IN 1..%d LOOP
						of_id := upper(substr(md5(random()::text), 1, 26)) || '.';
						PERFORM farsync_join('/small/%d', of_id, 130, 'job', 'exclusive', 1, 'a holder on a machine', 0);
						COMMIT;
						PERFORM farsync_leave(of_id);
						COMMIT;
					END LOOP;
				END $$`, times, worker))
			return err
		},
		// What was deleted since the last vacuum still stands there: as much as in a minute at 170 a second.
		Between: 10_000,
		Tidy:    func() { d.exec(t, "VACUUM farsync_entries, farsync_queues, farsync_watches, farsync_sessions") },
		Size: func() (int, string) {
			const sizes = "FROM (SELECT relname, pg_relation_size(oid) AS size FROM pg_class WHERE relname LIKE 'farsync%' ORDER BY 2 DESC LIMIT 9) r"
			return on[int](t, d.server, "SELECT sum(size)::int "+sizes),
				on[string](t, d.server, "SELECT string_agg(relname || ' ' || size / 1024, ', ') "+sizes)
		},
	}.Run(t)
}
