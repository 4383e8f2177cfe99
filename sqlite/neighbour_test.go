//go:build unix

package sqlite

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// rangeVariable is the bytes that a neighbour locks: the first of them, and how many.
const rangeVariable = "FARSYNC_SQLITE_RANGE"

// neighbour opens a file to read, and no more, and keeps a lock on some of its bytes until its standard input ends.
func neighbour(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lock := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if _, err := fmt.Sscan(os.Getenv(rangeVariable), &lock.Start, &lock.Len); err != nil {
		return err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLKW, &lock); err != nil {
		return err
	}
	fmt.Println("keeps")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestNeighbourWhoMayReadTheIndex: who may open -shm to read, and no more, keeps a lock on the byte that writers take. No
// transaction of any Store is written then. Nobody is told that he holds what he does not: a lease ends in time, no other
// client is granted its lock, and calls say that the service does not answer. The locks that the neighbour can take elsewhere stop nobody.
func TestNeighbourWhoMayReadTheIndex(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	patient := newStore(t, file, ttl(time.Hour))
	var harmless []*process
	for _, row := range []struct{ suffix, bytes string }{
		{"", "0 0"},
		{"-wal", "0 0"},
		{"-gate", "0 0"},
		{"-shm", "0 120"},
		{"-shm", "121 8"}, // of those who fold the log, recover, read, and open
	} {
		harmless = append(harmless, start(t, "neighbour", file+row.suffix, rangeVariable+"="+row.bytes))
	}
	for _, p := range harmless {
		p.says("keeps")
	}
	lease, err := farsync.NewMutex(patient, path).Lock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	first, second := newStore(t, file, ttl(2*time.Second)), newStore(t, file, ttl(2*time.Second))

	lease, err = farsync.NewMutex(first, path).Lock(within(t, soon))
	require.NoError(t, err)
	neighbour := start(t, "neighbour", file+"-shm", rangeVariable+"=120 1")
	neighbour.says("keeps")
	type answer struct {
		lease *farsync.Lease
		err   error
	}
	waits := make(chan answer, 1)
	go func() {
		lease, err := farsync.NewMutex(second, path).Lock(within(t, soon))
		waits <- answer{lease, err}
	}()
	_, err = Open(within(t, 300*time.Millisecond), file, nil)
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.ErrorContains(t, err, file)
	_, err = farsync.NewMutex(first, "/free").Lock(within(t, 2*time.Second)) // by then the session is over
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.Empty(t, waits, "for that is a write, too")

	require.NoError(t, neighbour.stdin.Close())
	got := <-waits
	require.NoError(t, got.err)
	require.Greater(t, got.lease.Token(), lease.Token())
}
