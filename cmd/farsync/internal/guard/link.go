//go:build unix

package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// A Link is the supervisor's side.
type Link struct {
	Word *Word
	// Signals has the signals that are to be passed on to COMMAND.
	Signals chan syscall.Signal
	// Resumed has a value when the shell has continued the guard.
	Resumed chan struct{}
	// Wanted has a value when another process of the guard's group wants the terminal, which COMMAND has.
	Wanted chan struct{}
	// Gone is closed when the guard has died.
	Gone chan struct{}
	// Group is the process group of the guard, which the shell knows.
	Group int
	// Guard is the PID of the guard.
	Guard int

	end  *os.File
	deaf bool // the caller of the guard had SIGTTOU ignored
}

// Attach returns the Link if this process is a supervisor, and nil if not.
func Attach() (*Link, error) {
	text, found := os.LookupEnv(variable)
	if !found {
		return nil, nil
	}
	_ = os.Unsetenv(variable)
	l := newLink(nil)
	var end, read, write int
	if n, err := fmt.Sscanf(text, "%d,%d,%d,%d,%d", &end, &read, &write, &l.Group, &l.Guard); n != 5 || err != nil {
		return nil, errors.New(variable + " is not for users")
	}
	if err := inherit(end, false); err != nil {
		return nil, err
	}
	if err := syscall.SetNonblock(end, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	l.end = os.NewFile(uintptr(end), "link")
	var err error
	if l.Word, err = takeWord(read, write); err != nil {
		return nil, err
	}
	if err := l.Share(false); err != nil {
		return nil, err
	}
	// The signals of the terminal and of a service manager come through the guard. Some are sent to all processes of a
	// service, and must not end this one before the others. Not ignored, for COMMAND would inherit that.
	dropped := make(chan os.Signal, 1)
	Catch(dropped, passedOn...)
	// It hands the terminal over, and writes to it, from the background.
	l.deaf = ignored(syscall.SIGTTOU)
	signal.Ignore(syscall.SIGTTOU)
	go l.read() // until the guard dies, or this process
	return l, nil
}

func newLink(end *os.File) *Link {
	return &Link{
		Signals: make(chan syscall.Signal), Resumed: make(chan struct{}, 1), Wanted: make(chan struct{}, 1), Gone: make(chan struct{}),
		end: end,
	}
}

func (l *Link) read() {
	defer close(l.Gone)
	heard := make(chan byte)
	defer close(heard)
	go l.deliver(heard)
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(l.end, b); err != nil {
			return
		}
		switch b[0] {
		case resumed:
			poke(l.Resumed)
		case wanted:
			poke(l.Wanted)
		default:
			heard <- b[0]
		}
	}
}

// poke sees to it that a channel has a value.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// deliver sends signals to those who pass them on, until read ends. They may be busy; that the guard dies must still be
// seen.
func (l *Link) deliver(heard <-chan byte) {
	var untaken pending
	for {
		out, s := first(untaken, l.Signals)
		select {
		case b, open := <-heard:
			if !open {
				return
			}
			untaken = untaken.add(b)
		case out <- s:
			untaken = untaken[1:]
		}
	}
}

// Look tells the guard that the Word has a deadline.
func (l *Link) Look() { l.tell(look) }

// Stop asks the guard to stop itself. Resumed then has a value when the shell continues it.
func (l *Link) Stop() { l.tell(stop) }

// Continue continues the guard's group once the terminal is given back: a process of the group had asked for the
// terminal.
func (l *Link) Continue() { _ = syscall.Kill(-l.Group, syscall.SIGCONT) }

// Done tells the guard that the supervisor is about to exit with the code of e, and that nothing is to be killed.
func (l *Link) Done(e End) {
	switch {
	case e.Signal == 0 || e.Signal > ofDied:
	case e.All:
		l.tell(diedAll | byte(e.Signal))
	default:
		l.tell(died | byte(e.Signal))
	}
	l.tell(done)
}

func (l *Link) tell(b byte) { _, _ = l.end.Write([]byte{b}) } // a guard that has died is seen otherwise

// Variable is the environment variable that tells COMMAND the descriptor of the Word.
const Variable = "FARSYNC_FD"

// Share decides whether a program that is started inherits the descriptor of the Word.
func (l *Link) Share(yes bool) error { return inherit(l.Word.FD(), yes) }

// Starting has a program that is started begin with SIGTTOU as the caller of the guard had it, until back is called.
func (l *Link) Starting() (back func()) {
	if l.deaf {
		return func() {}
	}
	// A signal that is ignored is inherited as such, and a signal that is caught is not. A Reset of an ignored signal
	// leaves it so.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU)
	return func() { signal.Ignore(syscall.SIGTTOU) }
}

// Environment is what COMMAND needs to read the Word.
func (l *Link) Environment() string { return Variable + "=" + strconv.Itoa(l.Word.FD()) }
