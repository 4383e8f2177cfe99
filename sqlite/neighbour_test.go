//go:build unix

package sqlite

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
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

// TestNeighbourWhoKeepsAStaleIndex: after a power cut the index, -shm, may tell of more than the log has. The process that opens the
// file first makes the index anew. A neighbour who locks the byte of those who have it open, before anybody does, keeps all from that.
// Nothing is granted then, and errors say so. Once the neighbour has gone the file is whole, as if there had been none.
func TestNeighbourWhoKeepsAStaleIndex(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		padded bool // the log has its length, and zeros
	}{{"the log is shorter", false}, {"the log has zeros at its end", true}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			file, next := newFile(t), newFile(t)
			// By another process: to close a file here would unlock it.
			run := func(name string, arguments ...string) {
				out, err := exec.Command(name, arguments...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			in := newSessionIn(t, file, nil)
			create := func(in driver.Session, queue string) error {
				e := driver.Entry{Queue: queue, Kind: driver.Exclusive, Units: 1}
				e.ID = in.NewID(e.Queue, e.Kind, 1)
				_, err := in.Create(within(t, soon), e, 0)
				return err
			}
			require.NoError(t, create(in, "/before"))
			run("cp", file+"-wal", next+"-wal")
			for range 20 {
				require.NoError(t, create(in, "/lost"))
			}
			run("cp", file, next)
			run("cp", file+"-shm", next+"-shm")
			if row.padded {
				is, err := os.Stat(file + "-wal")
				require.NoError(t, err)
				require.NoError(t, os.Truncate(next+"-wal", is.Size()))
			}
			open := func() (*service, driver.Session, error) {
				s, err := NewService(next, nil)
				require.NoError(t, err)
				// A file that was copied grants nothing for a TTL. The session that is worked in lasts for longer.
				first, err := s.Open(within(t, soon), time.Second)
				if err != nil {
					return s.(*service), nil, err
				}
				_ = first.Close(within(t, soon)) // or it has run out
				other, err := s.Open(within(t, soon), time.Hour)
				return s.(*service), other, err
			}

			neighbour := start(t, "neighbour", next+"-shm", rangeVariable+"=128 1")
			neighbour.says("keeps")
			s, _, err := open()
			require.ErrorContains(t, err, next)
			require.ErrorContains(t, err, "another program keeps a lock on its -shm")
			require.NoError(t, s.Close())
			require.NoError(t, neighbour.stdin.Close())
			for range neighbour.lines {
			}

			s, other, err := open()
			require.NoError(t, err)
			for queue, n := range map[string]int{"/before": 1, "/lost": 0} {
				list, err := other.List(within(t, soon), queue, 0)
				require.NoError(t, err)
				require.Len(t, list.Entries, n, queue)
			}
			require.NoError(t, create(other, "/after"))
			require.NoError(t, other.Close(within(t, soon)))
			require.NoError(t, s.Close())
			var is string
			require.NoError(t, newOperator(t, next).db.QueryRowContext(within(t, soon), "PRAGMA integrity_check").Scan(&is))
			require.Equal(t, "ok", is)
		})
	}
}
