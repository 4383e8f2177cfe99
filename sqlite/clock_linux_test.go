package sqlite

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// TestProcessOfAnotherTimeNamespace: a process whose clock is shifted by days, as in a container that was restored on another
// machine, shares a file like any other. A Store opens beside it at once, its lock is held against others, and comes free with its
// death, long before its TTL.
func TestProcessOfAnotherTimeNamespace(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("unshare")
	shifted := []string{"--time", "--monotonic", "1000000", "--kill-child"}
	if err == nil {
		err = exec.Command(program, append(shifted, "true")...).Run()
	}
	if err != nil {
		suite.NotHere(t, "the right to make a time namespace: "+err.Error())
	}
	file := newFile(t)
	other := prepared(t, "hold", file, ttlVariable+"=1h")
	other.Args = append(append([]string{program}, shifted...), other.Path)
	other.Path = program
	other.begin()
	token := strings.TrimSpace(other.says("locked"))

	store := newStore(t, file, ttl(time.Hour))
	mu := farsync.NewMutex(store, path)
	_, err = mu.TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, other.Process.Kill())
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, lease.Token().String(), token)
	require.NoError(t, lease.Release())
}
