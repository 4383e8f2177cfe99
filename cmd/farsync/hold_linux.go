package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// canFollow tells whether follow works on this system.
const canFollow = true

// follow returns a channel that is closed when a process has ended. Its PID may then be another's, which does not
// matter.
func follow(pid int) (chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { // until the process has ended, or this one
		defer close(ended)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ended, nil
}
