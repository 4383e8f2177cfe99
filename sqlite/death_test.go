//go:build unix

package sqlite

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// forever is a TTL that no test lives to see the end of.
const forever = ttlVariable + "=1h"

// TestKilledProcessIsSucceededBeforeItsTTL: its socket refuses.
func TestKilledProcessIsSucceededBeforeItsTTL(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills processes")
	t.Parallel()
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	for range 5 {
		holder := start(t, "hold", file, forever)
		holder.says("locked")
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		got := make(chan *farsync.Lease)
		go func() {
			lease, err := mu.Lock(within(t, soon))
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		_, err = farsync.NewMutex(newStore(t, file, nil), path).TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		killed := time.Now()
		holder.kill()
		lease := <-got
		t.Log("taken over after", time.Since(killed))
		require.NoError(t, lease.Release())
	}
}

// TestKilledProcessIsSeenByATry: a program that only tries has no time to wait.
func TestKilledProcessIsSeenByATry(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process")
	t.Parallel()
	file := newFile(t)
	holder := start(t, "hold", file, forever)
	holder.says("locked")
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	holder.kill()
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestLingeringProcessIsWaitedFor: its children may still work.
func TestLingeringProcessIsWaitedFor(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process that has a TTL of 2 s")
	t.Parallel()
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	holder := start(t, "hold", file, ttlVariable+"=2s", lingerVariable+"=yes")
	holder.says("locked")
	killed := time.Now()
	holder.kill()
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(killed), time.Second, "it was renewed every half second")
	require.NoError(t, lease.Release())
}

// TestJobOfAProcessThatEndsIsNotRunAgain: replicas whose clocks are late find the job's mutex held although the process that ran the job has
// ended within the time without Close. Its socket refuses, which lets others in where nobody has asked to outlast it.
func TestJobOfAProcessThatEndsIsNotRunAgain(t *testing.T) {
	t.Parallel()
	for role, again := range map[string]bool{"job": false, "keep": false, "leave": true} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			file := newFile(t)
			mu := farsync.NewMutex(newStore(t, file, nil), path)
			p := start(t, role, file, forever)
			p.says("works")
			require.NoError(t, p.stdin.Close())
			for range p.lines { // until it has ended
			}
			ran, err := mu.TryDo(t.Context(), 0, func(context.Context, *farsync.Lease) error { return nil })
			require.NoError(t, err)
			require.Equal(t, again, ran)
		})
	}
}

// TestStoppedProcessIsWaitedFor: it is not dead, and finds out that it has lost when it goes on.
func TestStoppedProcessIsWaitedFor(t *testing.T) {
	suite.Long(t, suite.SQLite, "stops a process")
	t.Parallel()
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	holder := start(t, "hold", file, ttlVariable+"=2s")
	holder.says("locked")
	stopped := time.Now()
	holder.signal(syscall.SIGSTOP)
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(stopped), time.Second)
	holder.signal(syscall.SIGCONT)
	holder.says("lost")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestCloseLeavesNoSocket, and neither does whoever ends the session of a process that was killed.
func TestCloseLeavesNoSocket(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process")
	t.Parallel()
	file := newFile(t)
	store, err := Open(t.Context(), file, nil)
	require.NoError(t, err)
	holder := start(t, "hold", file, forever)
	holder.says("locked")
	require.Len(t, entriesOf(t, file+"-farsync"), 2)
	holder.kill()
	lease, err := farsync.NewMutex(store, path).Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	require.NoError(t, store.Close())
	require.Empty(t, entriesOf(t, file+"-farsync"))
}
