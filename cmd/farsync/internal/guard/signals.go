//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that the guard passes on to COMMAND.
var passedOn = []syscall.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGTSTP,
}

// catch has signals sent to a channel, but for those that are ignored: nohup means COMMAND too, and COMMAND inherits that.
func catch(c chan<- os.Signal, signals ...syscall.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}
