//go:build unix

package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A relation is how a process stands to others. Its parent is 0 if this process cannot see it: it is in another PID
// namespace, or there is none.
type relation struct{ parent, group, session int }

// continuable reports whether somebody would continue the process group of this process, if it were stopped: a shell
// with jobs. The kernel reckons so, too, when it gets SIGTSTP from the terminal. A group is orphaned if no parent of
// one of its processes is in another group of the same session, and then it is not stopped.
//
// Of the group only this process and its parents are looked at. Where these say no, another may still have such a
// parent, and Ctrl-Z does nothing.
func continuable(of func(pid int) (relation, bool)) bool {
	self, ok := of(os.Getpid())
	if !ok {
		return false
	}
	for at := self; ; {
		// PID 1 has no parent, so this ends.
		above, ok := of(at.parent)
		switch {
		case at.parent == 0 || !ok || above.session != self.session:
			return false
		case above.group != self.group:
			return true
		}
		at = above
	}
}

// relationOf looks a process up.
func relationOf(pid int) (r relation, ok bool) {
	var errs [2]error
	r.group, errs[0] = unix.Getpgid(pid)
	r.session, errs[1] = unix.Getsid(pid)
	r.parent, ok = parentOf(pid)
	if pid == os.Getpid() {
		r.parent, ok = syscall.Getppid(), true
	}
	return r, ok && errs[0] == nil && errs[1] == nil
}
