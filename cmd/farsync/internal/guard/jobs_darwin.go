package guard

import "golang.org/x/sys/unix"

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int, ok bool) {
	process, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, false
	}
	return int(process.Eproc.Ppid), true
}
