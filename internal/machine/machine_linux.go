package machine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns the microseconds since the boot. It is the same in all processes, and knows no steps. It stands still while the
// machine sleeps.
func Clock() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	return now.Nano() / 1000
}

// Boot names what Clock began with: the boot of the kernel, and the time namespace, which can shift the clock.
var Boot = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/time")
	return strings.TrimSpace(string(id)) + " " + namespace
})

// localTypes are the file systems that are known to be of one machine.
var localTypes = []uint32{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
	unix.F2FS_SUPER_MAGIC, unix.RAMFS_MAGIC, unix.BCACHEFS_SUPER_MAGIC, 0x2fc12fc1, // the last is ZFS
}

// CheckLocal refuses a directory on a file system that may be remote.
func CheckLocal(dir string) error {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if !slices.Contains(localTypes, uint32(is.Type)) {
		return fmt.Errorf("%s is on a file system that is not known to be local (type %#x)", dir, uint32(is.Type))
	}
	return nil
}

// IsMountPoint reports whether a path is where something is mounted. It needs Linux 5.8.
func IsMountPoint(path string) bool {
	var is unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &is)
	return err == nil && is.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// Nap sleeps for some microseconds. A timer of Go is a millisecond late in a process that does nothing else.
func Nap(d time.Duration) {
	left := unix.NsecToTimespec(d.Nanoseconds())
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
