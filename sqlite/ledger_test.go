//go:build unix

package sqlite

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"github.com/farsync/farsync"
)

// A ledger is a critical section of several processes that detects an overlap by itself, in a file: the highest token that
// was inside, the process that it was of, and the number of visits.
type ledger struct{ file *os.File }

func openLedger(file string) (*ledger, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	return &ledger{f}, err
}

// enter fails if a holder with a later token has been inside while this one is held, which both cannot be. It reports
// whether the last visit was another process's, and how many there have been. A holder that has lost its lease is stale, and
// leaves no mark.
func (l *ledger) enter(lease *farsync.Lease) (other, stale bool, visits uint64, err error) {
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX); err != nil {
		return false, false, 0, err
	}
	defer func() { _ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN) }()
	var is [3]uint64 // token, process, visits
	record := make([]byte, 24)
	_, _ = l.file.ReadAt(record, 0) // zero if it is new
	for i := range is {
		is[i] = binary.BigEndian.Uint64(record[8*i:])
	}
	// Asked after the ledger was read: if the lease is held now, it was when the others were inside.
	held := lease.Err() == nil
	token, self := uint64(lease.Token()), uint64(os.Getpid())
	switch {
	case !held:
		return false, true, is[2], nil
	case token < is[0]:
		return false, false, is[2], fmt.Errorf("overlap: token %d is held after %d of process %d was inside", token, is[0], is[1])
	}
	other = is[1] != self
	if token > is[0] {
		is[2]++
	}
	for i, n := range [3]uint64{token, self, is[2]} {
		binary.BigEndian.PutUint64(record[8*i:], n)
	}
	_, err = l.file.WriteAt(record, 0)
	return other, false, is[2], err
}
