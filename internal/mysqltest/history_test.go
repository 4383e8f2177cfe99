package mysqltest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestReleaseThatIsUndoneIsDoneAgain: the entry of a lock that was released stands again when the server has been restarted, as with a backup that was
// restored, in a session that lives and renews. The Store removes it, and leaves what it holds.
func TestReleaseThatIsUndoneIsDoneAgain(t *testing.T) {
	suite.Long(t, suite.MySQL, "kills the server")
	d := roughDatabase(t)
	store, other := d.open(t, ttl(10*time.Second)), d.open(t, ttl(10*time.Second))
	undone, kept := lock(t, store, "/undone"), lock(t, store, "/kept")
	d.exec(t, "CREATE TABLE backup AS SELECT * FROM farsync_entries WHERE queue = '/undone'")
	require.NoError(t, undone.Release())
	require.EqualValues(t, 1, d.exec(t, "INSERT INTO farsync_entries SELECT * FROM backup"))
	d.server.Kill()
	require.NoError(t, d.server.Restart(within(t, soon)))
	require.NoError(t, lock(t, other, "/undone").Release())
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
}

func TestTablesThatAreEmptiedTellTheHolder(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	open := func(t *testing.T) *farsync.Store { return d.open(t, ttl(10*time.Second)) }
	locktest.RunEmptied(t, open, func(t *testing.T, statement string) { d.exec(t, statement) })
}
