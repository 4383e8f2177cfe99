package turnstile

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/internal/machine"
)

// supported says that locks belong to the open file, not to the process: two Gates of one process exclude one another,
// too, and closing one does not unlock what is the other's.
const supported = true

// openFile opens the file of a gate, and makes it if it is not there. It returns nil if it cannot, and if what is there
// is not a plain file. That is decided by what is open, for the path may name something else a moment later.
func openFile(path string) *os.File {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil
	}
	is, err := file.Stat()
	if err == nil {
		err = machine.CheckPlain(path, is)
	}
	if err != nil {
		_ = file.Close()
		return nil
	}
	return file
}

// lock locks a byte, or reports that it is locked.
func lock(file *os.File, at int64) bool {
	of := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &of) == nil
}

func unlock(file *os.File, at int64) {
	of := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: at, Len: 1}
	_ = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &of) // it is this file's
}

// locked returns a byte from one up to another that is locked by others, 0 if there is none.
func locked(file *os.File, from, to int64) int64 {
	if from >= to {
		return 0
	}
	of := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: from, Len: to - from}
	if unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &of) != nil || of.Type == unix.F_UNLCK {
		return 0
	}
	return max(of.Start, from)
}
