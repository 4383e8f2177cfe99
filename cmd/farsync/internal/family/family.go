//go:build unix

// Package family starts a process and ends it together with all that it has started.
//
// On Linux this process becomes the one to which orphans among its descendants are given (PR_SET_CHILD_SUBREAPER), so
// that a process that has left its group, its session and its parent is still found: the family is over when wait4 has
// no child left to wait for. On other systems the family is the process group.
//
// A process that has other children besides, see Shared, cannot tell orphans of the family from other orphans. There
// the family is apart: it comes from a keeper, a process that has no other children, is given the orphans of the
// family, and ends when none is left.
package family

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Family is a process that was started, at the head of a process group of its own, and all that come from it. A
// process has one Family at a time. It starts another when the Family before is over, or was left: what is left of that
// Family then belongs to the new Family.
type Family struct {
	// Ended is closed when the first process has ended; Status is then how.
	Ended  chan struct{}
	Status syscall.WaitStatus
	// Stopped has the signal by which the first process was stopped, the last time.
	Stopped chan syscall.Signal
	// Over is closed when no process of the family is left.
	Over chan struct{}

	pid  int
	born uint64 // on Linux
	left bool   // what is there is reaped by the next Family, or by nobody

	apart bool // the first process is a keeper
	// root is the child of this process from which a family apart comes: the keeper, or its heir. 0: it is over.
	root int
	// heir is what the keeper has started, and gives its orphans to this process if the keeper is killed. It is given the
	// orphans of the family in its turn, so then the family is what comes from it. 0: there is none.
	heir int

	// mu is held while a process is reaped, and while processes are looked up and signalled: a PID that is not reaped is
	// not given to another process.
	mu sync.Mutex
}

// Start starts path with its arguments. The process is sent atDeath when this one dies, and leads a group. An error
// means that nothing was started. Inherited descriptors are passed on.
func Start(path string, arguments, environment []string, atDeath syscall.Signal) (*Family, error) {
	return start(&Family{}, path, arguments, environment, atDeath)
}

// StartApart starts a keeper. SetHeir says what it has started.
func StartApart(path string, arguments, environment []string, atDeath syscall.Signal) (*Family, error) {
	return start(&Family{apart: true}, path, arguments, environment, atDeath)
}

func start(f *Family, path string, arguments, environment []string, atDeath syscall.Signal) (*Family, error) {
	f.Ended, f.Stopped, f.Over = make(chan struct{}), make(chan syscall.Signal, 1), make(chan struct{})
	if err := adopt(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() { // closes Over at its end, or ends with the first change of a process after Leave
		// The signal at death is sent when the thread that has forked dies, so that thread stays.
		runtime.LockOSThread()
		pid, err := syscall.ForkExec(path, arguments, &syscall.ProcAttr{
			Env: environment, Files: []uintptr{0, 1, 2}, Sys: attributes(atDeath),
		})
		f.pid, f.root = pid, pid
		if err == nil {
			f.born = bornAt(pid) // before it can be reaped
		}
		started <- err
		if err == nil {
			f.reap()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return f, nil
}

// Group is the process group of the first process, and its PID.
func (f *Family) Group() int { return f.pid }

// Born is what tells the first process from a later one with its PID, see Is.
func (f *Family) Born() uint64 { return f.born }

// Is reports whether a process is there, not reaped, and the process that Born was said of. On other systems than Linux
// it is always true.
func Is(pid int, born uint64) bool { return bornAt(pid) == born }

// SetHeir says which process the keeper has started, and 0 when that has ended.
func (f *Family) SetHeir(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heir = pid
}

// Signal sends a signal to the group; what has left the group does not get it. When the first process has ended, Signal
// sends it to all processes of the family: what is left may be in any group, and the number of an empty group is given
// to another.
func (f *Family) Signal(s syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.Over:
		return
	default:
	}
	select {
	case <-f.Ended:
		f.signalAll(s)
	default:
		_ = syscall.Kill(-f.pid, s) // ESRCH: there is none
	}
}

// Kill kills all processes of the family and returns when none is left. A process that the kernel does not let die
// keeps it waiting.
func (f *Family) Kill() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		f.mu.Lock()
		select {
		case <-f.Over:
			f.mu.Unlock()
			return
		default:
		}
		f.killOnce(false)
		f.mu.Unlock()
		pause.Reset(wait)
		select {
		case <-f.Over:
			return
		case <-pause.C:
		}
	}
}

// Leave gives up what is left of the family when its first process has ended. It is not reaped any more, for the exit
// of a process that is started later would be taken for one of its own.
func (f *Family) Leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = true
}

// KillBelow kills the processes of the family that are there now, and spares the first, and what a keeper has started.
// The spared process has to be given the orphans of the family: what is not below it is not killed.
func (f *Family) KillBelow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killOnce(true)
}

// note notes what wait4 has said of a process.
func (f *Family) note(pid int, status syscall.WaitStatus) {
	switch {
	case pid != f.pid:
	case status.Stopped():
		select {
		case <-f.Stopped: // an older one
		default:
		}
		f.Stopped <- status.StopSignal()
	case status.Exited() || status.Signaled():
		f.Status = status
		close(f.Ended)
	}
}
