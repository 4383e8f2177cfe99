package mysqltest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// session returns a session of a service of its own.
func (d database) session(t testing.TB, dsn string, of time.Duration) (driver.Service, driver.Session) {
	t.Helper()
	service, err := mysql.NewService(dsn, nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), of)
	require.NoError(t, err)
	t.Cleanup(func() {
		in.Drop()
		require.NoError(t, service.Close())
	})
	return service, in
}

// exclusive creates an entry in a queue.
func exclusive(t testing.TB, in driver.Session, queue string) driver.Entry {
	t.Helper()
	v, err := in.Create(within(t, soon), driver.Entry{
		Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
	}, 0)
	require.NoError(t, err)
	return v.Self
}

// TestSessionThatIsOverCreatesNothing, whether its row is gone or only its deadline, as while a guard keeps an entry.
func TestSessionThatIsOverCreatesNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service, in := d.session(t, d.dsn(), time.Hour)
	for _, end := range []string{"UPDATE farsync_sessions SET deadline = 0", "DELETE FROM farsync_sessions"} {
		require.EqualValues(t, 1, d.exec(t, end))
		_, err := in.Create(within(t, soon), driver.Entry{
			Queue: "/over", ID: in.NewID("/over", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
		}, 0)
		require.Equal(t, driver.Expired, service.Outcome(err), err)
		require.Zero(t, ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries"))
	}
}

// TestRenewalThatWaitedSetsNoDeadlineBack: renewals that LOCK TABLES has kept go on in any order. A Store counts from the later one that was
// answered, so the earlier must not leave the deadline at less than that.
func TestRenewalThatWaitedSetsNoDeadlineBack(t *testing.T) {
	suite.Long(t, suite.MySQL, "a renewal waits for tables for 5 s at most")
	t.Parallel()
	d := newDatabase(t)
	_, in := d.session(t, d.dsn(), time.Hour)
	conn, err := d.admin.Conn(within(t, soon))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	do := func(statement string) {
		_, err := conn.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	do("LOCK TABLES farsync_sessions WRITE")
	renewed := make(chan error, 1)
	go func() { renewed <- in.Renew(within(t, soon), nil) }() // joined below
	require.Eventually(t, func() bool { return running(t, d, "%farsync_sessions%deadline > 0%") > 0 }, soon, time.Millisecond)
	// What another renewal does that begins later and comes first.
	do("UPDATE farsync_sessions SET deadline = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + ttl")
	var later int64
	require.NoError(t, conn.QueryRowContext(within(t, soon), "SELECT deadline FROM farsync_sessions").Scan(&later))
	do("UNLOCK TABLES")
	require.NoError(t, locktest.Got(t, renewed))
	require.GreaterOrEqual(t, ask[int64](t, d, "SELECT deadline FROM farsync_sessions"), later)
}
