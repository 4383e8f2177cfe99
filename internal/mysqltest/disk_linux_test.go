package mysqltest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// TestFullDisk: what is held stays, what asks waits until there is room, and is told why if it gives up.
func TestFullDisk(t *testing.T) {
	suite.Long(t, suite.MySQL, "fills the server's disk beside a TTL of 2 s")
	t.Parallel()
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to mount a small disk")
	}
	disk := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(disk), 0o711)) //nolint:gosec // the server runs as another user
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size="+on.disk, "none", disk).CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	is, err := startServer(within(t, 2*soon), disk, on.smallFiles...)
	refuseOrSkip(t, err)
	t.Cleanup(func() { require.NoError(t, is.Close()) })
	d := databaseOf(t, is)
	const of = 2 * time.Second // less than it is full for
	store := d.open(t, ttl(of))
	lease := lock(t, store, "/full")

	filler := filepath.Join(disk, "filler")
	file, err := os.Create(filler)
	require.NoError(t, err)
	for _, block := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, block))
		}
		require.ErrorContains(t, err, "no space left")
	}
	require.NoError(t, file.Close())
	// The pages that there are have room for some.
	long := ""
	for i, err := 0, error(nil); err == nil; i++ {
		require.Less(t, i, 500)
		long = fmt.Sprint("/full", strings.Repeat("/"+strings.Repeat("x", 120), 4), i)
		if _, err = farsync.NewMutex(store, long).Lock(within(t, 2*of)); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Regexp(t, "Disk got full|is full", err.Error())
			t.Logf("after %d locks: %v", i, errors.Unwrap(err))
		}
	}
	require.NoError(t, os.Remove(filler))
	require.NoError(t, lock(t, store, long).Release())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}
