package recipe

import (
	"syscall"
	"time"
	"unsafe"
)

// The kernel's names of its clocks, which package syscall leaves out.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns for how long the host has been suspended since it was started: for so long the clock that Go reads has
// stood still, while that of the service has not. If the kernel cannot tell, it is zero for good.
//
// The clocks are read one after the other. What passes in between makes the result too small, never too large.
func suspended() time.Duration {
	boot, ok := readClock(clockBoottime)
	monotonic, ok2 := readClock(clockMonotonic)
	if !ok || !ok2 {
		return 0
	}
	return boot - monotonic
}

func readClock(id uintptr) (time.Duration, bool) {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano()), errno == 0
}
