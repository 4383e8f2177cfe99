package guard

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Hurry has the kernel prefer this process to others until back is called, where it may: as root, or with CAP_SYS_NICE.
// On a machine with more to do than it has processors, a process that is to kill at a deadline would be late otherwise.
// A process that is started meanwhile is preferred, too.
func Hurry() (back func()) {
	const (
		foremost = -20
		offset   = 20 // getpriority(2) itself returns 20 less the niceness
	)
	was, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return func() {}
	}
	renice(foremost)
	return func() { renice(offset - was) }
}

// renice sets the niceness of all threads. A thread that is started meanwhile has the niceness of the thread that
// starts it, so renice looks until there is no new thread.
func renice(nice int) {
	seen := map[string]bool{}
	for found := true; found; {
		found = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, task := range tasks {
			if seen[task.Name()] {
				continue
			}
			seen[task.Name()], found = true, true
			if id, err := strconv.Atoi(task.Name()); err == nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice) // EACCES: it may not
			}
		}
	}
}
