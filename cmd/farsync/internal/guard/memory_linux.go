package guard

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// anonymous returns descriptors of memory that has no name.
func anonymous() (d descriptors, err error) {
	if d.write, err = unix.MemfdCreate("farsync", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return d, err
	}
	d.read, err = unix.Open("/proc/self/fd/"+strconv.Itoa(d.write), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil { // without /proc the seal has to do
		d.read, err = unix.FcntlInt(uintptr(d.write), unix.F_DUPFD_CLOEXEC, 0)
	}
	return d, err
}

// seal keeps the memory as it is but for those who have it mapped for writing by now. Otherwise the owner could open it
// for writing by /proc/PID/fd, or shorten it, and the next look at it would be the end of the process that looks.
func seal(fd int) error {
	const size = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, size|unix.F_SEAL_FUTURE_WRITE)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.1
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, size)
	}
	return err
}
