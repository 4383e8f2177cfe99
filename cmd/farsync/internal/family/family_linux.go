package family

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopt makes orphans among the descendants children of this process.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}

func attributes(atDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: atDeath}
}

// reap waits for children, also for adopted children, until there are none, or they are another's.
func (f *Family) reap() {
	for {
		// A look that does not reap, so that mu is not held while nothing happens.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		f.mu.Lock()
		if f.left {
			f.mu.Unlock()
			return
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.ECHILD) {
			if !f.apart {
				close(f.Over)
			}
			f.mu.Unlock()
			return
		}
		if err == nil && pid > 0 {
			f.note(pid, status)
			if status.Exited() || status.Signaled() {
				f.reaped(pid)
			}
		}
		f.mu.Unlock()
	}
}

// killOnce kills all that are there now, or all but the first. Processes that they were about to start come to this
// process, and to the next call. The caller holds mu.
func (f *Family) killOnce(sparing bool) {
	if f.apart {
		f.killApart(sparing)
		return
	}
	from := os.Getpid()
	select {
	case <-f.Ended: // nothing keeps the number of an empty group from being used again
		if sparing {
			return
		}
	default:
		if sparing {
			from = f.pid
		} else {
			_ = syscall.Kill(-f.pid, syscall.SIGKILL)
		}
	}
	for _, p := range descendants(from) {
		p.signal(syscall.SIGKILL)
	}
}

// killApart is killOnce for a family apart. A keeper is never killed: it ends when nothing is left, and is what says
// so. Nor is an heir before nothing is found below it, for what comes from it would come to this process then, among
// all that does not belong to the family.
func (f *Family) killApart(sparing bool) {
	if f.root == 0 {
		return
	}
	below := descendants(f.root)
	for _, p := range below {
		if !sparing || p.PID != f.heir {
			p.signal(syscall.SIGKILL)
		}
	}
	switch {
	case f.root == f.pid:
		_ = syscall.Kill(f.root, syscall.SIGCONT) // it may have been stopped
	case len(below) == 0 && !sparing:
		_ = syscall.Kill(f.root, syscall.SIGKILL)
	}
}

// signalAll sends a signal to all processes of the family. The caller holds mu.
func (f *Family) signalAll(s syscall.Signal) {
	for _, p := range descendants(os.Getpid()) {
		p.signal(s)
	}
}

// Left returns the processes of the family.
func (f *Family) Left() []Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return descendants(os.Getpid())
}

// Shared reports whether this process has children that it has not started, and that outlive it: a shell that has
// started others, and then becomes this program, leaves it these, and it is given the orphans of these, too. The first
// process of a container is given all orphans. But it ends when it has ended its family, and everything in the
// container ends with it.
func Shared() bool {
	// A process without children has no descendants, and is given no orphans.
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return os.Getpid() != 1 && !errors.Is(err, unix.ECHILD)
}

// reaped is called when a child has been reaped. The caller holds mu.
func (f *Family) reaped(pid int) {
	switch s, ok := see(f.heir); {
	case !f.apart || pid != f.root:
	case ok && f.heir != 0 && s.parent == os.Getpid():
		f.root, f.heir = f.heir, 0 // a child now, which is there until it is reaped here
	default:
		f.root = 0
		close(f.Over)
	}
}
