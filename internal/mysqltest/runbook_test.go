package mysqltest_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
)

// block returns the statements of the block of a document that begins with this line.
func block(t *testing.T, document, first string) (list []string) {
	text, err := os.ReadFile("../../docs/" + document)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```sql\n"+first)
	require.True(t, found)
	rest, _, _ = strings.Cut(first+rest, "```")
	for line := range strings.SplitSeq(rest, ";") {
		_, comment, _ := strings.Cut(line, "--")
		if _, after, found := strings.Cut(line, "\n"); strings.HasPrefix(strings.TrimSpace(line), "--") && found {
			line = after
		} else if comment != "" && !found {
			continue
		}
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// TestRunbookOnMySQL runs what the runbook prints.
func TestRunbookOnMySQL(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, ttl(10*time.Second))
	look, remove := block(t, "RUNBOOK.md", "-- On MySQL, what holds"), block(t, "RUNBOOK.md", "-- On MySQL, an entry")
	require.Len(t, look, 1)
	require.Len(t, remove, 2)
	for _, statement := range remove {
		lease := lock(t, store, "/locks/billing")
		got := locktest.LockBehind(t, d.open(t, ttl(10*time.Second)), "/locks/billing")
		locktest.AwaitQueue(t, store, "/locks/billing", 2)
		rows, err := d.admin.QueryContext(within(t, soon), look[0])
		require.NoError(t, err)
		require.True(t, rows.Next())
		var revision, units int64
		var id, kind, holder, session, since string
		require.NoError(t, rows.Scan(&revision, &id, &kind, &units, &holder, &session, &since))
		require.NoError(t, rows.Close())
		require.Equal(t, "exclusive", kind)
		require.NotEmpty(t, holder)
		which := id
		if strings.Contains(statement, "farsync_sessions") {
			which = session
		}
		require.EqualValues(t, 1, d.exec(t, statement, which))
		require.NoError(t, locktest.Got(t, got).Release())
		locktest.Ended(t, lease)
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	}
}

// TestTakingPartByHand runs what docs/wire-sql.md prints.
func TestTakingPartByHand(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	lines := block(t, "wire-sql.md", "CALL farsync_open")
	require.Len(t, lines, 6)
	for i, line := range lines {
		if at := strings.Index(line, "CALL"); at >= 0 {
			line = line[at:]
		}
		d.exec(t, line)
		_, err := farsync.NewMutex(d.open(t, nil), "/locks/billing").TryLock(within(t, soon))
		if i >= 1 && i <= 3 {
			require.ErrorIs(t, err, farsync.ErrLocked, line)
		} else {
			require.NoError(t, err, line)
			d.exec(t, "DELETE FROM farsync_entries")
		}
	}
}
