//go:build linux

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/suite"
)

// TestFullDiskLosesNothing: what is held stays so, what is asked for is refused in words, and what was released while the
// disk was full is free once there is room.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := mounted(t, "size=8m", 0)
	file := filepath.Join(dir, "locks.db")
	store := newStore(t, file, ttl(time.Hour))
	held, released := farsync.NewMutex(store, "/held"), farsync.NewMutex(store, "/released")
	lease, err := held.Lock(t.Context())
	require.NoError(t, err)
	other, err := released.Lock(t.Context())
	require.NoError(t, err)

	filler := fill(t, dir)
	_, err = farsync.NewMutex(store, "/new").Lock(within(t, soon))
	require.ErrorContains(t, err, "the disk is full")
	require.ErrorContains(t, err, file)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "refused, not waited for")
	_, err = Open(within(t, soon), file, nil)
	require.ErrorContains(t, err, "the disk is full")
	require.Error(t, other.Release())
	require.NoError(t, lease.Err())

	require.NoError(t, os.Remove(filler))
	second := newStore(t, file, nil)
	_, err = farsync.NewMutex(second, "/held").TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	next, err := farsync.NewMutex(second, "/released").Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, next.Token(), other.Token())
	require.NoError(t, next.Release())
	require.NoError(t, lease.Release())
}

// TestSecondMountIsTheSameFile: processes that know the file by different paths, as containers do, exclude one another, wake
// one another, and see one another's end.
func TestSecondMountIsTheSameFile(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process")
	first := t.TempDir()
	second := t.TempDir()
	if err := syscall.Mount(first, second, "", syscall.MS_BIND, ""); err != nil {
		suite.NotHere(t, "the right to mount: "+err.Error())
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(second, syscall.MNT_DETACH)) })
	store := newStore(t, filepath.Join(first, "locks.db"), ttl(time.Hour))
	mu := farsync.NewMutex(store, path)
	holder := start(t, "hold", filepath.Join(second, "locks.db"), forever)
	holder.says("locked")
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	holder.kill()
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err, "its socket is found by the other path")
	next := start(t, "hold", filepath.Join(second, "locks.db"), forever)
	for list, err := store.Participants(t.Context(), path); len(list) < 2; list, err = store.Participants(t.Context(), path) {
		require.NoError(t, err)
	}
	require.NoError(t, lease.Release())
	next.says("locked")
}

// TestCommitOfUnknownOutcome: a write that breaks off in COMMIT, here by the limit that a process has for the size of files, may
// have been carried out as far as the driver can tell. It is made once in the end.
func TestCommitOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	p := start(t, "limited", newFile(t), forever)
	require.Equal(t, fmt.Sprint(driver.Unknown), p.says("outcome"))
	require.Contains(t, p.saysAny("because"), "commit: disk I/O error")
	require.Equal(t, "1 entries", p.says("again"))
	require.Equal(t, "1 entries", p.says("locked"))
	p.ends()
}

func init() { roles["limited"] = limited } //nolint:gochecknoinits // the role needs what Linux has

// limited has its writes fail, with a session and with a Mutex.
func limited(ctx context.Context, mu *farsync.Mutex, file string) error {
	s, err := NewService(file, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	in, err := s.Open(ctx, time.Hour)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close(ctx) }()
	queue := func(name string) (string, error) {
		v, err := in.List(ctx, name, 0)
		return fmt.Sprint(len(v.Entries), " entries"), err
	}
	restore, err := limit(file + "-wal")
	if err != nil {
		return err
	}
	e := driver.Entry{Queue: "/limited", ID: in.NewID("/limited", driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
	_, err = in.Create(ctx, e, 0)
	fmt.Println("outcome", s.Outcome(err))
	fmt.Println("because", err)
	got := make(chan error, 1)
	bound, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := mu.Lock(bound); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("locked without a commit: %w", err)
	}
	go func() {
		_, err := mu.Lock(ctx) // it is under way as the writes succeed again, or begins then
		got <- err
	}()
	if err := restore(); err != nil {
		return err
	}
	if _, err = in.Create(ctx, e, 1); err != nil {
		return err
	}
	there, err := queue(e.Queue)
	if err != nil {
		return err
	}
	fmt.Println("again", there)
	if err := <-got; err != nil {
		return err
	}
	if there, err = queue(path); err != nil {
		return err
	}
	fmt.Println("locked", there)
	return nil
}

// limit lets no file of this process grow beyond the size of one.
func limit(file string) (restore func() error, err error) {
	var was syscall.Rlimit
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return nil, err
	}
	err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(info.Size()), Max: was.Max})
	return func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was) }, err
}
