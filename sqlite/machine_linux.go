package sqlite

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// clock returns the time by which sessions end, in microseconds. It begins with the boot, is the same in all processes,
// and knows no steps. It stands still while the machine sleeps. A Store's own deadline counts the sleep, so it comes
// no later.
func clock() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return now.Nano() / 1000
}

// boot names what the clock began with: the boot of the kernel, and the time namespace, which can shift the clock.
var boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/time")
	return strings.TrimSpace(string(id)) + " " + namespace
})

// localTypes are the file systems that are known to be of one machine: on others SQLite's write-ahead log does not work.
var localTypes = []uint32{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
	unix.F2FS_SUPER_MAGIC, unix.RAMFS_MAGIC, unix.BCACHEFS_SUPER_MAGIC, 0x2fc12fc1, // the last is ZFS
}

// checkLocal refuses a directory on a file system that may be remote.
func checkLocal(dir string) error {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if !slices.Contains(localTypes, uint32(is.Type)) {
		return fmt.Errorf("%s is on a file system that is not known to be local (type %#x)", dir, uint32(is.Type))
	}
	return nil
}

// reach returns the path by which sockets in an open directory are bound and reached. It is short, as the kernel wants it.
func reach(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// nap is a sleep of some microseconds. A timer of Go is a millisecond late in a process that does nothing else.
func nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
