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

// Ends reports whether a signal is one by which a user or a service manager has a program end.
func Ends(s syscall.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// Catch has signals sent to a channel, but for signals that are ignored: nohup means COMMAND too, and COMMAND inherits
// that.
func Catch(c chan<- os.Signal, signals ...syscall.Signal) {
	for _, s := range signals {
		if !ignored(s) {
			signal.Notify(c, s)
		}
	}
}
