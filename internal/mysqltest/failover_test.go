package mysqltest_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// TestFailoverWhileTheOldPrimaryLives: for how long two hold.
func TestFailoverWhileTheOldPrimaryLives(t *testing.T) {
	suite.Long(t, suite.MySQL, "fails over to a replica, and waits for sessions to run out")
	if on.name != "MariaDB" {
		t.Skip("what it says to replicas is MariaDB's")
	}
	t.Parallel()
	setting := embedtest.Setting
	primary := embedtest.MariaDB(t, setting("log-bin=changes"), setting("binlog-format=ROW"), setting("server-id=1"))
	replica := embedtest.MariaDB(t, setting("server-id=2"))
	old, to := connect(t, primary.DSN("")), connect(t, replica.DSN(""))
	_, port, err := net.SplitHostPort(primary.Endpoint())
	require.NoError(t, err)
	for _, statement := range []string{
		"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = " + port + ", MASTER_USER = 'root', MASTER_USE_GTID = slave_pos",
		"START SLAVE",
	} {
		_, err := to.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	_, err = old.ExecContext(within(t, soon), "CREATE DATABASE locks")
	require.NoError(t, err)
	require.NoError(t, mysql.Migrate(within(t, soon), primary.DSN("locks")))
	ways := 0
	locktest.RunFailover(t, locktest.Failover{
		Old: primary.Endpoint(), New: replica.Endpoint(),
		Open: func(t *testing.T, way *locktest.Way, d time.Duration) *farsync.Store {
			ways++
			network := fmt.Sprint("way-", ways)
			driver.RegisterDialContext(network, func(ctx context.Context, _ string) (net.Conn, error) {
				return way.Dial(ctx)
			})
			t.Cleanup(func() { driver.DeregisterDialContext(network) }) // once the Store is closed
			return openAt(t, "root@"+network+"(-)/locks", ttl(d))
		},
		Part: func() {
			var position string
			require.NoError(t, old.QueryRowContext(within(t, soon), "SELECT @@gtid_binlog_pos").Scan(&position))
			var late int
			require.NoError(t, to.QueryRowContext(within(t, soon), "SELECT MASTER_GTID_WAIT(?, 30)", position).Scan(&late))
			require.Zero(t, late)
			_, err := to.ExecContext(within(t, soon), "STOP SLAVE")
			require.NoError(t, err)
		},
		Promote: func() {
			_, err := to.ExecContext(within(t, soon), "RESET SLAVE ALL")
			require.NoError(t, err)
		},
		Guard: func(t *testing.T, address string, lease locktest.Owner) error {
			tx, err := connect(t, "root@tcp("+address+")/locks").BeginTx(within(t, soon), nil)
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			return mysql.Guard(within(t, soon), tx, lease)
		},
	})
}
