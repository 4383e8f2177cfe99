//go:build unix

// Package terminal hands the terminal from one process group to another, as a shell does.
package terminal

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Terminal is the terminal that controls this process. A process that no terminal controls has a nil Terminal.
type Terminal struct {
	file *os.File
	// Reads tells whether the standard input is a terminal that controls this process.
	Reads bool
	// Piped tells whether the standard output or the standard error is a pipe. The reader of the pipe may read the
	// terminal, too, as less does.
	Piped bool
}

// Open returns the terminal, or nil.
func Open() *Terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	_, err = unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return &Terminal{file: file, Reads: err == nil, Piped: piped(1) || piped(2)}
}

func piped(fd int) bool {
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return false
	}
	return is.Mode&unix.S_IFMT == unix.S_IFIFO || is.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// Close closes it.
func (t *Terminal) Close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// Foreground returns the process group that may read, or 0.
func (t *Terminal) Foreground() int {
	if t == nil {
		return 0
	}
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// Give makes a process group the group that may read. A process in the background that calls Give must ignore SIGTTOU.
func (t *Terminal) Give(group int) {
	if t == nil {
		return
	}
	_ = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) // a group that has ended reads nothing
}

// Return makes a process group the group that may read, if the group that may read now is from, or has no process any
// more. As for Give.
func (t *Terminal) Return(to, from int) {
	switch front := t.Foreground(); {
	case front == 0, front == to:
	case front == from, errors.Is(syscall.Kill(-front, 0), syscall.ESRCH):
		t.Give(to)
	}
}

// Width is the number of columns of what a descriptor shows, or 0 if that is no terminal.
func Width(fd int) int {
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
