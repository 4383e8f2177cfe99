//go:build unix

package guard

import (
	"os"
	"syscall"
	"time"
)

// An End is how a run has ended.
type End struct {
	Code int
	// Signal is the signal that COMMAND has died of, or that has ended the wait for the lock: the user's or a service
	// manager's. 0 if there is none. The End that Run returns has a Signal only if its process is to die of it, too.
	Signal syscall.Signal
	// All tells that the signal was sent from the terminal, to COMMAND's group alone, for that had the terminal.
	All bool
}

// Die has this process die of the signal of e, if there is one: a shell goes on with a script after a program that has
// exited with 130, for that program has dealt with Ctrl-C, and ends the script after a program that has died of SIGINT.
// A signal that the terminal has sent to COMMAND alone is sent to the whole group of this process, as it would have
// been if COMMAND were in that.
//
// Die returns if the process is not to die, or does not. The kernel keeps signals without a handler from process 1 of a
// container.
func (e End) Die() {
	if e.Signal == 0 || os.Getpid() == 1 || !mortalTo(e.Signal) {
		return
	}
	to := os.Getpid()
	if e.All {
		to = 0
	}
	_ = syscall.Kill(to, e.Signal)
	<-time.After(time.Second) // it comes to any of the threads, unless all of them block it
}
