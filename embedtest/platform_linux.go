package embedtest

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the child when the thread that starts it ends, which for a thread that nobody else
// ends is when this process does. It reaches a stopped child too.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped returns once every thread of the child has stopped, or the child is gone: the signal alone is a request.
func awaitStopped(child *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// A port is a TCP port of 127.0.0.1 that is kept for a child until it is released.
type port struct {
	number int
	fd     int
}

// reservePort binds a socket to a free port and does not listen on it. A child may then listen on the port, since both
// sockets allow the address to be reused and ours does not listen; nobody who asks for any free port is given it.
func reservePort() (port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return port{}, fmt.Errorf("embedtest: reserve a port: %w", err)
	}
	number, err := func() (int, error) {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return 0, err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return 0, err
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return 0, err
		}
		return name.(*unix.SockaddrInet4).Port, nil
	}()
	if err != nil {
		_ = unix.Close(fd)
		return port{}, fmt.Errorf("embedtest: reserve a port: %w", err)
	}
	return port{number: number, fd: fd}, nil
}

func (p port) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

func (p port) release() { _ = unix.Close(p.fd) }
