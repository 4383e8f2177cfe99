package mysqltest_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/mysql"
)

var (
	idles        = flag.Int("idle", 100, "Stores that do nothing")
	acquisitions = flag.Int("acquisitions", 1200, "times that a lock is taken while the sizes of tables are measured")
)

// TestIdleStoresCost one call for each renewal, which are four a TTL, and a connection each or two.
func TestIdleStoresCost(t *testing.T) {
	t.Parallel()
	d := databaseOf(t, embedtest.MariaDB(t, embedtest.Setting("max_connections = 3000")))
	const of = 8 * time.Second
	var opening, closing errgroup.Group
	opening.SetLimit(8)
	closing.SetLimit(8)
	stores := make([]*farsync.Store, *idles)
	for i := range stores {
		opening.Go(func() (err error) {
			stores[i], err = mysql.Open(within(t, soon), d.dsn(), ttl(of))
			return err
		})
	}
	require.NoError(t, opening.Wait())
	defer func() {
		for _, store := range stores {
			closing.Go(store.Close)
		}
		require.NoError(t, closing.Wait())
	}()
	calls := func() int {
		return ask[int](t, d, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'")
	}
	began, before := time.Now(), calls()
	<-time.After(of)
	n, took := calls()-before, time.Since(began)
	each := float64(n) / float64(*idles) / (float64(took) / float64(of))
	connections := ask[int](t, d, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ?", d.name)
	t.Logf("%d idle Stores: %.0f calls a second, %.2f each in a TTL, %d connections", *idles, float64(n)/took.Seconds(), each, connections)
	require.LessOrEqual(t, each, 6.0)
	require.LessOrEqual(t, connections, 2**idles+8)
}

// TestTablesStaySmall however often a lock is taken: InnoDB removes what was deleted by itself.
func TestTablesStaySmall(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(time.Minute))
	rows := func() (n int) {
		for _, table := range []string{"farsync_entries", "farsync_queues", "farsync_sessions", "farsync_registers"} {
			n += ask[int](t, d, "SELECT COUNT(*) FROM "+table)
		}
		return n
	}
	size := func() int {
		return ask[int](t, d, "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name LIKE ?", d.name+"/farsync%")
	}
	const rounds = 6
	var first int
	for round := range rounds {
		for range *acquisitions / rounds {
			require.NoError(t, lock(t, store, "/small").Release())
		}
		t.Logf("after %d acquisitions: %d KB, %d rows", *acquisitions/rounds*(round+1), size()>>10, rows())
		if round == rounds/2-1 {
			first = size()
		}
	}
	require.Equal(t, 2, rows(), "a session and a queue")
	require.LessOrEqual(t, size(), first+first/2, "flat")
}
