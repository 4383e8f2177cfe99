package embedtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the child when the thread that starts it ends, which for a thread that nothing else
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

// forkedBy returns the processes that a child has started. It is exact while the child is stopped.
func forkedBy(pid int) (forked []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is a good one
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				forked = append(forked, child)
			}
		}
	}
	return forked
}

// awaitState returns once a process that is no child of ours is in one of the states of proc(5), or gone.
func awaitState(pid int, states string) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		at := bytes.LastIndexByte(stat, ')') + 2 // the state follows the name, which is in parentheses
		if err != nil || len(stat) <= at || strings.IndexByte(states, stat[at]) >= 0 {
			return
		}
		<-ticker.C
	}
}

// writeNothing has the process, which runs as another user if one is given, and whatever it forks, write no byte to a
// file.
func writeNothing(pid int, as *syscall.Credential) error {
	// Only the user of a process may limit it, if not who has CAP_SYS_RESOURCE, which root in a container has not.
	command := exec.Command("prlimit", "--pid", strconv.Itoa(pid), "--fsize=0:")
	command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// reserve makes a file of that size with zeros. The disk has room for them from then on: a server that has laid its
// files out does not find the disk full when it writes them. Where the file system cannot, the zeros are written.
func reserve(file *os.File, size int64) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) { // a signal may interrupt it, as of a child that ends: see fallocate(2)
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(file, size)
	}
	return err
}

// A port is a TCP port of 127.0.0.1 that is kept for a child until it is released.
type port struct {
	number int
	fd     int
}

// reservePort binds a socket to a free port and does not listen on it. A child may then listen on the port, since both
// sockets allow the address to be reused and ours does not listen; no process that asks for any free port is given it.
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
