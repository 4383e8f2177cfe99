//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/cmd/farsync/internal/family"
)

// A Word is a piece of memory that the supervisor writes and others read: until when the lease is held, by a clock that
// does not stand still while the host is suspended. Nothing has to be sent when the lease is renewed, and a reader is
// right also when the supervisor is stopped.
//
// COMMAND reads it, too, and must not be able to change by when it is to be killed, nor what: it inherits a descriptor
// that is open for reading, and on Linux the memory is sealed, so that it cannot be opened for writing by another way.
type Word struct {
	fd     int // for reading
	write  int // for the supervisor alone, and closed once that has it
	memory []byte
}

// The layout, in words of 8 bytes.
const (
	wordMagic    = iota // by which a reader knows that it was handed a Word
	wordDeadline        // 0: there is no lease
	wordSlack           // how long after the deadline the guard takes the supervisor for stopped
	wordGroup           // the process group of COMMAND; 0: none
	wordBorn            // what tells COMMAND from a later process with that number, as package family has it
	wordSize
)

const (
	magic = 0x66617273796e6331
	// firstFD is above the descriptors that scripts use by number.
	firstFD = 100
)

var errNoWord = errors.New("the descriptor is not that of farsync run: it was closed, or used for something else")

// NewWord makes a Word without a deadline.
func NewWord() (*Word, error) {
	low, err := anonymous()
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	defer syscall.Close(low.write)
	defer syscall.Close(low.read)
	if err := syscall.Ftruncate(low.write, int64(os.Getpagesize())); err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	w := &Word{}
	if w.fd, err = aside(low.read); err != nil {
		return nil, err
	}
	if w.write, err = aside(low.write); err != nil {
		return nil, err
	}
	if w.memory, err = mapped(w.write, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	w.at(wordMagic).Store(magic)
	return w, nil
}

// OpenWord returns the Word of a descriptor that was inherited, to be read.
func OpenWord(fd int) (*Word, error) {
	var is syscall.Stat_t
	if err := syscall.Fstat(fd, &is); err != nil || is.Size < wordSize*8 {
		return nil, errNoWord
	}
	memory, err := mapped(fd, unix.PROT_READ)
	w := &Word{fd: fd, memory: memory}
	if err != nil || w.at(wordMagic).Load() != magic {
		return nil, errNoWord
	}
	return w, nil
}

// takeWord returns the Word of the descriptors that NewWord has made, for the supervisor. From now on it alone writes.
func takeWord(read, write int) (w *Word, err error) {
	w = &Word{fd: read, write: write}
	if w.memory, err = mapped(write, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	if err := seal(write); err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	w.give()
	return w, nil
}

// give closes the descriptor for writing. The mapped memory stays mapped.
func (w *Word) give() { _ = syscall.Close(w.write) }

func mapped(fd, access int) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, os.Getpagesize(), access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return memory, nil
}

// descriptors are two of the same memory.
type descriptors struct{ read, write int }

// aside returns a copy of a descriptor with a high number, which is not inherited.
func aside(fd int) (int, error) {
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstFD)
	if err != nil {
		return 0, fmt.Errorf("move a descriptor: %w", err)
	}
	return high, nil
}

func (w *Word) at(i int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&w.memory[8*i])) }

// Set says until when the lease is held. Zero: there is none, and nothing to guard.
func (w *Word) Set(deadline time.Time, slack time.Duration) {
	w.at(wordSlack).Store(int64(slack))
	at := int64(0)
	if !deadline.IsZero() {
		at = int64(Now() + time.Until(deadline))
	}
	w.at(wordDeadline).Store(at)
}

// SetGroup says which process group COMMAND is, and when it was born. Zero: there is none any more.
func (w *Word) SetGroup(group int, born uint64) {
	if group == 0 {
		w.at(wordGroup).Store(0)
		return
	}
	w.at(wordBorn).Store(int64(born))
	w.at(wordGroup).Store(int64(group))
}

// killGroup kills the group of COMMAND, if there is one. The number of a group is given to another when the group is
// empty, and a supervisor that is stopped, or was killed, may not have said so. While COMMAND itself is there it is not
// empty. Without COMMAND what is left of its group is found otherwise.
func (w *Word) killGroup() {
	if group := w.group(); group > 1 && family.Is(group, uint64(w.at(wordBorn).Load())) {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
}

func (w *Word) group() int { return int(w.at(wordGroup).Load()) }

// Left returns for how long the lease is still held unless it is renewed, and whether there is one.
func (w *Word) Left() (left time.Duration, held bool) {
	at := w.at(wordDeadline).Load()
	return time.Duration(at) - Now(), at != 0
}

func (w *Word) slack() time.Duration { return time.Duration(w.at(wordSlack).Load()) }

// FD is the number of the descriptor for reading.
func (w *Word) FD() int { return w.fd }

// inherit decides whether programs that are started from now on get the descriptor under its number.
func inherit(fd int, yes bool) error {
	flags := unix.FD_CLOEXEC
	if yes {
		flags = 0
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flags); err != nil {
		return fmt.Errorf("descriptor %s: %w", strconv.Itoa(fd), err)
	}
	return nil
}
