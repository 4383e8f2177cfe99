package guard

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// ignored reports whether this process ignores a signal. Among the signals that the caller had ignored, package signal
// knows it for SIGHUP and SIGINT alone: to the runtime, the signals of job control are left as they are, and it catches
// the rest before anything could look.
func ignored(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	_, after, found := strings.Cut(string(status), "\nSigIgn:")
	set := uint64(0)
	if n, _ := fmt.Sscanf(after, "%x", &set); err != nil || !found || n != 1 {
		return signal.Ignored(s)
	}
	return set>>(s-1)&1 != 0
}
