package guard

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since the boot, with the time of suspends.
func Now() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // cannot fail
	return time.Duration(now.Nano())
}

// An alarm sends when a time has come. Go's timers stand still in a suspend of the host.
type alarm struct {
	fd   int // File.Fd would make reads block
	file *os.File
	c    chan struct{}
}

// newAlarm returns an alarm that is not set. Its goroutine ends with ctx, which closes the file, or with the process.
func newAlarm(ctx context.Context) (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{fd, os.NewFile(uintptr(fd), "alarm"), make(chan struct{}, 1)}
	context.AfterFunc(ctx, func() { _ = a.file.Close() })
	go func() {
		for buffer := make([]byte, 8); ; {
			if _, err := a.file.Read(buffer); err != nil {
				return
			}
			select {
			case a.c <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set sets the alarm off at a time of Now, in place of an earlier one.
func (a *alarm) set(at time.Duration) error {
	when := unix.NsecToTimespec(int64(max(at, 1)))
	return os.NewSyscallError("timerfd_settime",
		unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: when}, nil))
}
