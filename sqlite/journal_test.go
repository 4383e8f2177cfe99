//go:build unix

package sqlite

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestJournalModeStandsUnderARunningStore: Open sets it, and does not look again. SQLite lets no other program change
// it while a connection is open, and a Store has one from when it opens the file until it closes it.
func TestJournalModeStandsUnderARunningStore(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	store := newStore(t, file, ttl(time.Minute))
	other, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	var mode string
	require.ErrorContains(t, other.QueryRowContext(within(t, soon), "PRAGMA journal_mode = delete").Scan(&mode), "locked")
	require.NoError(t, other.QueryRowContext(within(t, soon), "PRAGMA journal_mode").Scan(&mode))
	require.Equal(t, "wal", mode)
	require.NoError(t, store.Close())
	require.NoError(t, other.QueryRowContext(within(t, soon), "PRAGMA journal_mode = delete").Scan(&mode))
	require.Equal(t, "delete", mode)
}
