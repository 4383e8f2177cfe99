package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mortalTo sets the default action of a signal, and reports whether it could: by package signal SIGQUIT prints
// goroutines, and exits. COMMAND has left the core that is of interest, so this process leaves none.
func mortalTo(s syscall.Signal) bool {
	const sizeOfSet = 8 // of the kernel's sigset_t; on MIPS that is 16, and this fails
	var action [64]byte // a struct sigaction without flags and with SIG_DFL, which is 0
	if unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) != nil {
		return false
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, sizeOfSet, 0, 0)
	return errno == 0
}
