package postgrestest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestReleaseThatAReplicaMissedIsMadeUpFor: the replica that is promoted has not received the release of a lock. Its entry stands there, in a session
// that lives and renews. The Store removes it, and leaves what it holds. The holder of what the replica lacks is told.
func TestReleaseThatAReplicaMissedIsMadeUpFor(t *testing.T) {
	suite.Long(t, suite.Postgres, "kills the server, and promotes a replica")
	t.Parallel()
	d, replica := replicated(t)
	store, other := d.open(t, 10*time.Second), d.open(t, 10*time.Second)
	missed, kept := lock(t, store, "/missed"), lock(t, store, "/kept")
	cutOff(t, d.server, replica)
	require.NoError(t, missed.Release())
	lacked := lock(t, store, "/lacked")
	d.server.Kill()
	require.True(t, on[bool](t, replica, "SELECT pg_promote()"))
	require.NoError(t, lock(t, other, "/missed").Release())
	<-lacked.Done()
	require.ErrorIs(t, lacked.Err(), farsync.ErrLost)
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
}

// release ends a lease. A server that takes longer for the removal than a third of the TTL has not refused: the removal is repeated, and whoever
// waits for the lock sees when it is done.
func release(t *testing.T, lease *farsync.Lease) {
	t.Helper()
	if err := lease.Release(); !errors.Is(err, farsync.ErrUnavailable) {
		require.NoError(t, err)
	}
}

// TestReleaseThatABackupLacksIsMadeUpFor: the entries of an earlier moment are put back while the server runs.
func TestReleaseThatABackupLacksIsMadeUpFor(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store, other := d.open(t, 10*time.Second), d.open(t, 10*time.Second)
	missed, kept := lock(t, store, "/missed"), lock(t, store, "/kept")
	d.exec(t, "CREATE TABLE backup AS TABLE farsync_entries")
	release(t, missed)
	release(t, lock(t, other, "/missed")) // the entry that the backup has is gone
	tx, err := d.admin.Begin(within(t, soon))
	require.NoError(t, err)
	for _, statement := range []string{
		"SET LOCAL session_replication_role = replica", // as pg_restore --disable-triggers
		"TRUNCATE farsync_entries", "INSERT INTO farsync_entries TABLE backup",
	} {
		_, err := tx.Exec(within(t, soon), statement)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(within(t, soon)))
	release(t, lock(t, other, "/missed"))
	require.NoError(t, kept.Err())
	release(t, kept)
}

func TestTablesThatAreEmptiedTellTheHolder(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	open := func(t *testing.T) *farsync.Store { return d.open(t, 10*time.Second) }
	locktest.RunEmptied(t, open, func(t *testing.T, statement string) { d.exec(t, statement) })
}
