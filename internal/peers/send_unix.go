//go:build unix

package peers

import (
	"errors"
	"net"
	"syscall"
)

// sendNow sends a message without waiting, and reports false if the socket that it is for is full. A write with a
// deadline may fail before it has tried: on a busy machine more than a millisecond may pass before that.
func sendNow(conn *net.UnixConn, message []byte, to *net.UnixAddr) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	full := false
	_ = raw.Control(func(socket uintptr) {
		for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
			err = syscall.Sendto(int(socket), message, 0, &syscall.SockaddrUnix{Name: to.Name})
		}
		full = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS)
	})
	return !full
}
