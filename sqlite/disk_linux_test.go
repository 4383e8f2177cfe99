package sqlite

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// mounted returns a small file system of its own.
func mounted(t *testing.T, options string, flags uintptr) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		suite.NotHere(t, "the right to mount: "+err.Error())
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// fill leaves no room on a file system, until the file that it returns is removed.
func fill(t *testing.T, dir string) string {
	file := filepath.Join(dir, "filler")
	f, err := os.Create(file)
	require.NoError(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	return file
}

// TestMisuseOfADisk gives a disk without room, and one that may not be written.
func TestMisuseOfADisk(t *testing.T) {
	full := mounted(t, "size=128k", 0)
	fill(t, full)
	readOnly := filepath.Join(mounted(t, "", syscall.MS_RDONLY), "locks.db")
	later := mounted(t, "size=1m", 0)
	store := newStore(t, filepath.Join(later, "locks.db"), ttl(time.Hour)) // no renewal finds the disk full
	held, err := farsync.NewMutex(store, "/held").Lock(within(t, soon))
	require.NoError(t, err)
	filler := fill(t, later)
	locktest.RunInputs(t, []locktest.Input{
		refused("a disk without room", filepath.Join(full, "locks.db"), filepath.Join(full, "locks.db")),
		refused("a disk that may not be written", readOnly, readOnly, "cannot be opened or made"),
		{
			Given: "a disk that has filled up", Why: "what is not written is not held, and says so",
			Says: []string{"farsync: campaign /full", "the disk is full", later},
			Call: func(t *testing.T, ctx context.Context, _ *slog.Logger) error {
				for i := 0; ; i++ {
					_, err := farsync.NewElection(store, "/full/"+string(rune('a'+i))).Campaign(ctx, strings.Repeat("x", 60_000))
					if err != nil {
						return err
					}
				}
			},
		},
	})
	require.NoError(t, os.Remove(filler))
	assert.NoError(t, held.Release())
	lease, err := farsync.NewMutex(store, "/held").TryLock(within(t, soon))
	require.NoError(t, err, "it is usable again")
	require.NoError(t, lease.Release())
}

// TestFileThatIsMountedByItself, as into two containers: SQLite keeps the log beside each of its names, so each of them would
// grant what the other has granted. Its directory may be mounted.
func TestFileThatIsMountedByItself(t *testing.T) {
	file := newFile(t)
	store := newStore(t, file, nil)
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	require.NoError(t, err)
	bind := func(from, to string) {
		if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
			suite.NotHere(t, "the right to mount: "+err.Error())
		}
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(to, syscall.MNT_DETACH)) })
	}
	alone, whole := filepath.Join(t.TempDir(), "alone.db"), t.TempDir()
	must(t, os.WriteFile(alone, nil, 0o600))
	bind(file, alone)
	bind(filepath.Dir(file), whole)
	locktest.RunInputs(t, []locktest.Input{
		refused("a file that is mounted by itself", alone, alone+" is mounted by itself", "mount its directory"),
	})
	other := newStore(t, filepath.Join(whole, filepath.Base(file)), nil)
	_, err = farsync.NewMutex(other, path).TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	must(t, other.Close(), lease.Release())
	bind(file+"-wal", file+"-wal")
	locktest.RunInputs(t, []locktest.Input{
		refused("a log that is mounted by itself", file, file+"-wal is mounted by itself", "mount its directory"),
	})
}
