package program

import "syscall"

// dieWithParent has the kernel kill a worker when its parent is gone. A worker that runs would leave by itself, when
// its stdin ends; a worker that is stopped cannot.
//
// The death that counts is the death of the thread that starts the worker. In this program threads end with the
// process, for no goroutine ends while it is locked to one.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
