//go:build unix && !linux

package guard

import (
	"os/signal"
	"syscall"
)

// mortalTo has a signal do what it does to a program in Go that has not asked for it, and reports whether it dies of
// that.
func mortalTo(s syscall.Signal) bool {
	signal.Reset(s)
	return s != syscall.SIGQUIT // which prints goroutines, and exits
}
