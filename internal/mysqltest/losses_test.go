package mysqltest_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

// logged returns a session in the database, and what its Store logs, which it does in a goroutine of its own.
func (d database) logged(t *testing.T) (driver.Session, *locktest.Log) {
	var log locktest.Log
	service, err := mysql.NewService(d.dsn(), &mysql.Options{Options: farsync.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(in.Drop)
	return in, &log
}

// TestLossesThatAreSetUnderARunningStore: a server that does not flush its logs, that of InnoDB or the binary log, has
// confirmed what it loses when it, or its machine, crashes. The next renewal warns of it, by no request more.
func TestLossesThatAreSetUnderARunningStore(t *testing.T) {
	t.Parallel()
	d := databaseOf(t, newServer(t, embedtest.Fsync(), embedtest.Setting("log-bin=changes"), embedtest.Setting("sync-binlog=1"), embedtest.Setting("server-id=1")))
	in, log := d.logged(t)
	renewed := func(words string) {
		t.Helper()
		require.NoError(t, in.Renew(within(t, soon), nil))
		log.Await(t, words)
	}
	require.NoError(t, in.Renew(within(t, soon), nil))
	d.exec(t, "SET GLOBAL sync_binlog = 0")
	renewed(locktest.Loose + `"sync_binlog = 0"`)
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "nothing before")
	require.NoError(t, in.Renew(within(t, soon), nil))
	d.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	renewed(locktest.Loose + `"innodb_flush_log_at_trx_commit = 2, sync_binlog = 0"`)
	require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "once each")
	d.exec(t, "SET GLOBAL sync_binlog = 1")
	d.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	renewed(locktest.Loose + `"innodb_flush_log_at_trx_commit = 0"`)
	d.exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	renewed(`"settings were"="innodb_flush_log_at_trx_commit = 0"`)
}

// TestServersOfTestsAreWarnedOf: those of embedtest do not sync unless they are told to. Nothing but the server says
// so, and a Store believes it.
func TestServersOfTestsAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, log := newDatabase(t).logged(t)
	log.Await(t, locktest.Loose+`"innodb_flush_log_at_trx_commit = 2"`)
}
