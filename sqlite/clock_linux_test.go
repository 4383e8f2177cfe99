package sqlite

import (
	"os/exec"
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
	words := suite.OtherClock(t, "1000000")
	file := newFile(t)
	other := prepared(t, "hold", file, ttlVariable+"=1h")
	program, err := exec.LookPath(words[0])
	require.NoError(t, err)
	words = append(words, other.Path)
	other.Path, other.Args = program, words
	other.begin()
	var token farsync.Token
	require.NoError(t, token.UnmarshalText([]byte(other.says("locked"))))

	store := newStore(t, file, ttl(time.Hour))
	mu := farsync.NewMutex(store, path)
	_, err = mu.TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	require.NoError(t, other.Process.Kill())
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, lease.Token(), token)
	require.NoError(t, lease.Release())
}
