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
	_, shift := began()
	return now.Nano()/1000 - shift
}

// Boot names what Clock began with, the boot of the kernel.
func Boot() string {
	boot, _ := began()
	return boot
}

// firstTime is the time namespace that the kernel starts with. The number is a constant of the kernel.
const firstTime = "time:[4026531834]"

// began returns what Clock began with, and how many microseconds the time namespace of this process adds to the clock of the kernel.
// Clock takes them away again, so that a container with a clock of its own, a restored one for example, has the clock of all others.
// Two clocks would not let two hold, for sessions of another boot are given their TTL once more. But a session that has died would
// be given it again and again, by processes of either clock in turn, and its locks would never come free.
//
// Where /proc does not tell how far the clock is shifted, the namespace is part of the name, and clocks are not compared.
var began = sync.OnceValues(func() (boot string, shift int64) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/time")
	if namespace != "" && namespace != firstTime {
		children, _ := os.Readlink("/proc/self/ns/time_for_children") // the offsets are of this one
		offsets, _ := os.ReadFile("/proc/self/timens_offsets")
		if is, known := shiftOf(string(offsets)); known && children == namespace {
			namespace, shift = firstTime, is
		}
	}
	return strings.TrimSpace(string(id)) + " " + namespace, shift
})

// shiftOf reads the offset of CLOCK_MONOTONIC, in microseconds. Its line has the name of the clock, seconds and nanoseconds.
func shiftOf(offsets string) (micros int64, known bool) {
	for line := range strings.Lines(offsets) {
		var seconds, nanos int64
		if _, err := fmt.Sscanf(line, "monotonic %d %d", &seconds, &nanos); err == nil {
			return seconds*1e6 + nanos/1000, true
		}
	}
	return 0, false
}

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

// HasAccessList reports whether a file has a list of users and groups who may use it, beside its owner and its group. The
// rights of the group are then the most that a user or a group in the list has.
func HasAccessList(path string) bool {
	size, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}
