//go:build unix

package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestStatementThatNeverEnds: a trigger or a view of another program keeps no caller longer than its context lives, nor
// the Store from closing. The file's lock to write is given back, so the trigger can be dropped.
func TestStatementThatNeverEnds(t *testing.T) {
	t.Parallel()
	const endless = "(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c WHERE x < 0)"
	const trigger, body, dropped = "CREATE TRIGGER evil BEFORE ", " BEGIN SELECT count(*) FROM " + endless + "; END", "DROP TRIGGER evil"
	for _, row := range []struct {
		name string
		does []string
		undo []string
	}{
		{"a renewal", []string{trigger + "UPDATE ON farsync_sessions" + body}, []string{dropped}},
		{"a join", []string{trigger + "INSERT ON farsync_entries" + body}, []string{dropped}},
		{"a release", []string{trigger + "DELETE ON farsync_entries" + body}, []string{dropped}},
		{"a look", []string{
			"ALTER TABLE farsync_registers RENAME TO kept",
			"CREATE VIEW farsync_registers AS SELECT x AS queue, x AS value, x AS version FROM " + endless,
		}, []string{"DROP VIEW farsync_registers", "ALTER TABLE kept RENAME TO farsync_registers"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			store := newStore(t, file, ttl(10*time.Second))
			held, err := farsync.NewMutex(store, path).Lock(within(t, soon))
			require.NoError(t, err)
			admin := newOperator(t, file)
			for _, statement := range row.does {
				admin.exec(t, statement)
			}

			_, err = farsync.NewMutex(store, path).Lock(within(t, 200*time.Millisecond))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_ = held.Release() // by itself, or by the end of its session
			closed := make(chan struct{})
			go func() { _ = store.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(soon):
				require.Fail(t, "the Store does not close")
			}
			for _, statement := range row.undo {
				admin.exec(t, statement)
			}
			lease, err := farsync.NewMutex(newStore(t, file, nil), path).Lock(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		})
	}
}
