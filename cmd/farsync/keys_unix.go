//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readKeys calls f with each key that is typed on the terminal, without an echo, until restore is called. Keys that
// send a signal still do. It reports false where no terminal is, or another process has it.
func readKeys(f func(key byte)) (restore func(), reads bool) {
	none := func() {}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return none, false
	}
	conn, err := tty.SyscallConn() // its Fd would make it block
	var was *unix.Termios
	if err == nil {
		_ = conn.Control(func(fd uintptr) {
			// From the background it would be stopped.
			if group, failed := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP); failed != nil || group != syscall.Getpgrp() {
				return
			}
			was, err = unix.IoctlGetTermios(int(fd), getTermios)
			if err != nil {
				was = nil
				return
			}
			keys := *was
			keys.Lflag &^= unix.ICANON | unix.ECHO
			keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
			_ = unix.IoctlSetTermios(int(fd), setTermios, &keys)
		})
	}
	if was == nil {
		_ = tty.Close()
		return none, false
	}
	ended := make(chan struct{})
	go func() { // until tty is closed; restore joins it
		defer close(ended)
		for b := make([]byte, 1); ; {
			if n, err := tty.Read(b); err != nil {
				return
			} else if n == 1 {
				f(b[0])
			}
		}
	}()
	return func() {
		_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetTermios(int(fd), setTermios, was) })
		_ = tty.Close()
		<-ended
	}, true
}
