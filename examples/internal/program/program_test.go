//go:build unix

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNextRunRemovesWhatAKilledOneHasLeft, and nothing of a run that is still there, or of another program.
func TestNextRunRemovesWhatAKilledOneHasLeft(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	gone := exec.Command(os.Args[0], "-test.run=^$")
	require.NoError(t, gone.Run())
	folder := func(name string) string {
		dir := filepath.Join(temp, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "etcd"), 0o700))
		return dir
	}
	left := folder(fmt.Sprintf("farsync-show-%d-1", gone.Process.Pid))
	others := []string{
		folder(fmt.Sprintf("farsync-show-%d-1", os.Getpid())),
		folder(fmt.Sprintf("farsync-other-%d-1", gone.Process.Pid)),
		folder("farsync-show-mine-1"),
	}
	removeLeft("farsync-show-")
	require.NoDirExists(t, left)
	for _, dir := range others {
		require.DirExists(t, dir)
	}
}
