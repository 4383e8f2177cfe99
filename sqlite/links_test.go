//go:build unix

package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestFileWithSeveralNamesIsRefused: SQLite keeps the log beside the name that a file is opened by, so two names are
// two logs of one file.
func TestFileWithSeveralNamesIsRefused(t *testing.T) {
	file := newFile(t)
	other := file + ".other"
	store := newStore(t, file, nil)
	must(t, os.Link(file, other))
	locktest.RunInputs(t, []locktest.Input{
		refused("the other name of a file", other, other+" has 2 names (hard links)", "symbolic links"),
		refused("a file that has got another name", file, file+" has 2 names (hard links)", "symbolic links"),
	})
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err, "a session that is there goes on: the other name is not opened")
	must(t, os.Remove(other), lease.Release(), newStore(t, file, nil).Close())
}

// TestLinksLeadToOneFile, whichever process makes it: the holder is heard of, and what it leaves behind is noticed,
// under each of its paths.
func TestLinksLeadToOneFile(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills processes")
	t.Parallel()
	for name, link := range map[string]func(t *testing.T, file string) string{
		"to the file": func(t *testing.T, file string) string {
			to := filepath.Join(t.TempDir(), "link.db")
			must(t, os.Symlink(file, to))
			return to
		},
		"to the directory": func(t *testing.T, file string) string {
			to := filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(filepath.Dir(file), to))
			return filepath.Join(to, filepath.Base(file))
		},
		"by a relative path": func(t *testing.T, file string) string {
			must(t, os.Symlink(filepath.Base(file), file+".link"), os.Symlink(filepath.Base(file)+".link", file+".link-to-link"))
			return file + ".link-to-link"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			holder := start(t, "hold", link(t, file), forever) // which makes the file
			holder.says("locked")
			mu := farsync.NewMutex(newStore(t, file, nil), path)
			_, err := mu.TryLock(t.Context())
			require.ErrorIs(t, err, farsync.ErrLocked)
			holder.kill()
			lease, err := mu.TryLock(t.Context())
			require.NoError(t, err, "its socket is found by the other path")
			require.NoError(t, lease.Release())
		})
	}
}

// TestLogShrinks: it grows behind whoever reads for long, and is cut when nobody does.
func TestLogShrinks(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, ttl(time.Minute)), path)
	cycle := func(n int) (size int64) {
		for range n {
			lease, err := mu.Lock(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, lease.Release())
		}
		info, err := os.Stat(file + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	cycle(10)
	reader, err := newOperator(t, file).db.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	var n int
	require.NoError(t, reader.QueryRow("SELECT count(*) FROM farsync_entries").Scan(&n))
	before := cycle(600)
	require.Greater(t, before, int64(12<<20), "it is kept for the reader")
	require.NoError(t, reader.Rollback())
	after := cycle(300)
	t.Logf("%d bytes behind a reader, %d after it has gone", before, after)
	require.LessOrEqual(t, after, int64(6<<20))
}
