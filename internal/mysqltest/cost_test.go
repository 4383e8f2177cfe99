package mysqltest_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

var (
	idles        = flag.Int("idle", 100, "Stores that do nothing")
	acquisitions = flag.Int("acquisitions", 1200, "times that a lock is taken while the sizes of tables are measured")
)

// TestIdleStoresCost one call for each renewal, which are four a TTL, and a connection each.
func TestIdleStoresCost(t *testing.T) {
	suite.Long(t, suite.MySQL, "counts the calls of 100 Stores that renew")
	t.Parallel()
	d := databaseOf(t, newServer(t, embedtest.Setting("max_connections = 3000")))
	const of = 8 * time.Second
	locktest.OpenMany(t, *idles, func() (*farsync.Store, error) { return mysql.Open(within(t, soon), d.dsn(), ttl(of)) })
	calls := func() int { return d.status(t, "Questions") }
	began, before := time.Now(), calls()
	<-time.After(of)
	n, took := calls()-before, time.Since(began)
	each := float64(n) / float64(*idles) / (float64(took) / float64(of))
	connections := 0
	for _, p := range d.processes(t) {
		if p["db"] == d.name {
			connections++
		}
	}
	t.Logf("%d idle Stores: %.0f calls a second, %.2f each in a TTL, %d connections", *idles, float64(n)/took.Seconds(), each, connections)
	require.LessOrEqual(t, each, 6.0)
	require.LessOrEqual(t, connections, *idles+8)
}

// TestTablesStaySmall however often locks are taken: InnoDB removes what was deleted by itself. A loop at the server takes them, with
// the procedures of a Lock and a Release.
func TestTablesStaySmall(t *testing.T) {
	suite.Long(t, suite.MySQL, "takes locks thousands of times")
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CALL farsync_open('job', 3600000000)")
	d.exec(t, `CREATE PROCEDURE take(of_queue VARCHAR(99), times BIGINT) BEGIN
		WHILE times > 0 DO
			SET @id = UPPER(SUBSTR(SHA2(RAND(), 256), 1, 26)), times = times - 1;
			CALL farsync_create_4(of_queue, @id, 130, 'job', 'exclusive', 1, 'a holder on a machine', 0);
			CALL farsync_delete(@id);
		END WHILE;
	END`)
	locktest.Growth{
		Acquisitions: *acquisitions,
		Take: func(worker, times int) error {
			_, err := d.admin.ExecContext(within(t, soon), "CALL take(?, ?)", fmt.Sprint("/small/", worker), times)
			return err
		},
		Between: 4_000,
		Tidy:    func() {},
		Slack:   1 << 20, // an extent: on a busy machine the server comes late to clean up, and not at all within a small run
		Size: func() (int, string) {
			sizes := "FROM " + on.tablespaces + " WHERE name LIKE ?"
			return ask[int](t, d, "SELECT SUM(file_size) "+sizes, d.name+"/farsync%"),
				ask[string](t, d, "SELECT GROUP_CONCAT(SUBSTRING_INDEX(name, '/', -1), ' ', file_size DIV 1024 ORDER BY file_size DESC SEPARATOR ', ') "+sizes, d.name+"/farsync%")
		},
	}.Run(t)
	rows := 0
	for _, table := range []string{"farsync_entries", "farsync_queues", "farsync_sessions", "farsync_registers"} {
		rows += ask[int](t, d, "SELECT COUNT(*) FROM "+table)
	}
	require.Equal(t, 1+locktest.Workers, rows, "a session and the queues")
}
