//go:build unix && !linux

package family

import (
	"errors"
	"syscall"
	"time"
)

func adopt() error { return nil }

func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the one child there is, and then until its group is empty.
func (f *Family) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(f.pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		f.mu.Lock()
		if err == nil && pid > 0 {
			f.note(pid, status)
		}
		f.mu.Unlock()
		if err != nil || status.Exited() || status.Signaled() {
			break
		}
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !errors.Is(syscall.Kill(-f.pid, 0), syscall.ESRCH) {
		<-look.C
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.Over)
}

// killOnce kills the group, unless its first process is to be spared. The caller holds mu.
func (f *Family) killOnce(sparing bool) {
	if !sparing {
		_ = syscall.Kill(-f.pid, syscall.SIGKILL)
	}
}

// signalAll sends a signal to all processes of the family that can be found: the group, which is over when it is empty.
func (f *Family) signalAll(s syscall.Signal) { _ = syscall.Kill(-f.pid, s) }

// A Process is a process that is left.
type Process struct {
	PID  int
	Name string
}

// Shared is of no use on this system, where nothing but the group is killed.
func Shared() bool { return false }

func bornAt(int) uint64 { return 0 }

// Left tells nothing on this system.
func (f *Family) Left() []Process { return nil }
