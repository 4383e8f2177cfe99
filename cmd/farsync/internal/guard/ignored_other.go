//go:build unix && !linux

package guard

import (
	"os/signal"
	"syscall"
)

// ignored reports whether this process ignores a signal, as far as package signal knows.
func ignored(s syscall.Signal) bool { return signal.Ignored(s) }
