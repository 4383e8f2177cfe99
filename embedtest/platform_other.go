//go:build unix && !linux

package embedtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// awaitStopped cannot wait here; the child stops a moment later.
func awaitStopped(*os.Process) {}

// forkedBy does not know here: what a server has forked ends by itself when the server is gone.
func forkedBy(int) []int { return nil }

func awaitState(int, string) {}

func writeNothing(int, *syscall.Credential) error { return errors.ErrUnsupported }

func reserve(file *os.File, size int64) error { return writeZeros(file, size) }

// A port is a TCP port of 127.0.0.1 that was free a moment ago.
type port struct{ number int }

func reservePort() (port, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return port{}, fmt.Errorf("embedtest: find a free port: %w", err)
	}
	defer listener.Close()
	return port{number: listener.Addr().(*net.TCPAddr).Port}, nil
}

func (p port) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

func (p port) release() {}
