package mysqltest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/mysql"
)

// TestTableInAnotherEngine: MyISAM locks no row, and takes no step back. Where a table is converted under a running Store, its session is not
// renewed any more, and none is opened, before the tables are made again.
func TestTableInAnotherEngine(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service, in := d.session(t, d.dsn(), time.Hour)
	require.NoError(t, in.Renew(within(t, soon), nil))
	d.exec(t, "ALTER TABLE farsync_entries DROP FOREIGN KEY farsync_entries_session")
	// MyISAM has no room for the keys of the other tables.
	d.exec(t, "ALTER TABLE farsync_sessions ENGINE = MyISAM")
	err := in.Renew(within(t, soon), nil)
	require.ErrorContains(t, err, "farsync needs InnoDB: farsync_sessions is in MyISAM")
	require.Equal(t, driver.Refused, service.Outcome(err))
	_, err = mysql.Open(within(t, soon), d.dsn(), nil)
	require.ErrorContains(t, err, "farsync needs InnoDB: farsync_sessions is in MyISAM")
	require.ErrorContains(t, err, "; drop the tables of farsync while nothing is held, and make them again by Migrate")
	d.exec(t, "DROP TABLE farsync_entries, farsync_sessions, farsync_queues, farsync_registers")
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
	require.NoError(t, lock(t, d.open(t, nil), "/engine").Release())
}

// TestTablesThatTheServerMakesInAnotherEngine: enforce_storage_engine of MariaDB takes the place of the engine that a CREATE names.
func TestTablesThatTheServerMakesInAnotherEngine(t *testing.T) {
	t.Parallel()
	if on.name != "MariaDB" {
		t.Skip("MySQL has no such setting")
	}
	d := bareDatabase(t, serverOf(t, shared))
	require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()+"?enforce_storage_engine=Aria"))
	require.Equal(t, 4, ask[int](t, d, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND engine = 'Aria'"))
	_, err := mysql.Open(within(t, soon), d.dsn(), nil)
	require.ErrorContains(t, err, "farsync needs InnoDB: farsync_sessions is in Aria, farsync_queues is in Aria, farsync_entries is in Aria, "+
		"farsync_regist") // 128 characters
}
