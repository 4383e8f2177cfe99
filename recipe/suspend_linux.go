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
// stood still, while the clock of the service has not. If the kernel cannot tell, it is zero for good.
//
// The clocks are read one after the other, and what passes in between makes the result too small. A process may be kept from
// running just then, for longer than leastSuspend, and the next result, which is right, would then look like a suspend. So clocks
// that were not read in one go are read again.
func suspended() time.Duration { return suspendedBy(readClock) }

func suspendedBy(read func(id uintptr) (time.Duration, bool)) time.Duration {
	for {
		before, ok := read(clockMonotonic)
		boot, ok2 := read(clockBoottime)
		after, ok3 := read(clockMonotonic)
		switch {
		case !ok || !ok2 || !ok3:
			return 0
		case after-before < leastSuspend/4:
			return boot - after
		}
	}
}

func readClock(id uintptr) (time.Duration, bool) {
	var now syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano()), errno == 0
}
