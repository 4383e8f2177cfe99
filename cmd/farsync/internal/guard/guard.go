//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/farsync/farsync/cmd/farsync/internal/family"
	"github.com/farsync/farsync/cmd/farsync/internal/terminal"
)

// Name is the name of the supervisor among processes: its first argument. A program that calls Run gives control to the
// same code under this name.
const Name = "farsync-supervisor"

// variable tells the supervisor its end of the link, the descriptors of the Word, and the group of the guard.
const variable = "FARSYNC_SUPERVISOR"

// The two talk to each other a byte at a time. The guard sends the number of a signal to be passed on, resumed and
// wanted.
const (
	resumed = 0xff // the guard was stopped and is continued
	wanted  = 0xfe // a process of the guard's group wants the terminal, which COMMAND has
	look    = 'l'  // the Word has a deadline
	stop    = 's'  // COMMAND was stopped from the terminal: stop yourself, so that the shell sees it
	done    = 'd'  // what was started is over, or is to be left alone
	died    = 0x80 // with the number of a signal: that is how COMMAND has ended, or the wait for the lock
	diedAll = 0xa0 // the same, and the terminal has sent it to COMMAND's group
	ofDied  = 0x1f // the number
)

// Lost is what Run returns when the guard had to end COMMAND.
const Lost = 79

// ErrProc means that the system does not say what runs on it, without which nothing that COMMAND has started can be
// found and ended.
var ErrProc = errors.New("there is no /proc here, in which farsync finds its own program and what COMMAND has started: mount it, as by mount -t proc proc /proc")

// Run runs this program again as the supervisor, guards it, and returns how it has ended. The code is Lost when the
// supervisor has died, or was stopped at the deadline: then all that it had started is dead.
func Run(say func(string)) (e End, err error) {
	g := &guard{say: say, terminal: terminal.Open()}
	defer g.terminal.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if g.word, err = NewWord(); err != nil {
		return e, err
	}
	if g.alarm, err = newAlarm(ctx); err != nil {
		return e, err
	}
	signals := make(chan os.Signal, 16)
	Catch(signals, passedOn...)
	defer signal.Stop(signals)
	background := make(chan os.Signal, 1)
	Catch(background, syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Stop(background)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := g.start(); err != nil {
		return e, err
	}
	defer Hurry()()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer g.link.Close()
	g.out = make(chan byte)
	reading.Go(func() { // as long; a supervisor that is stopped has it wait
		for {
			select {
			case b := <-g.out:
				_, _ = g.link.Write([]byte{b}) // a supervisor that has died is seen otherwise
			case <-ctx.Done():
				return
			}
		}
	})
	said := make(chan byte)
	reading.Go(func() { // ends with the link, when the supervisor has died or Run returns
		defer close(said)
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(g.link, b); err != nil {
				return
			}
			select {
			case said <- b[0]:
			case <-ctx.Done():
				return
			}
		}
	})
	ended, status := g.family.Ended, &g.family.Status
	if g.report != nil {
		defer g.report.Close()
		ended, status = make(chan struct{}), new(syscall.WaitStatus)
		reading.Go(func() { g.follow(ended, status) }) // ends with the report, when the keeper has died or Run returns
	}
	defer cancel()
	defer g.reclaim()
	return g.watch(signals, background, continued, said, supervised{ended, status})
}

type guard struct {
	say      func(string)
	word     *Word
	alarm    *alarm
	link     *os.File
	family   *family.Family // the supervisor, or the keeper, with all that comes from it
	report   *os.File       // of the keeper, if there is one
	terminal *terminal.Terminal
	waited   bool    // wanted was told, and what has asked is not continued yet
	done     bool    // the supervisor has said so
	end      End     // as far as it has said so
	sent     pending // signals that this process was sent

	untold pending   // to the supervisor
	out    chan byte // to what writes to the link
}

// start starts the supervisor.
func (g *guard) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	for i, fd := range pair {
		high, err := aside(fd)
		if err != nil {
			return err
		}
		_ = syscall.Close(fd)
		pair[i] = high
	}
	// Non-blocking, so that Go's poller reads it and Close ends the reader.
	if err := syscall.SetNonblock(pair[0], true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	g.link = os.NewFile(uintptr(pair[0]), "link")
	defer syscall.Close(pair[1])
	program, err := os.Executable()
	if err != nil && runtime.GOOS == "linux" {
		return ErrProc
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		program = "/proc/self/exe" // also when the file was replaced meanwhile
	}
	for _, fd := range []int{pair[1], g.word.fd, g.word.write} {
		if err := inherit(fd, true); err != nil {
			return err
		}
	}
	environment := append(os.Environ(),
		fmt.Sprintf("%s=%d,%d,%d,%d,%d", variable, pair[1], g.word.fd, g.word.write, syscall.Getpgrp(), syscall.Getpid()))
	if family.Shared() {
		err = g.startKeeper(program, environment)
	} else {
		// If the supervisor is stopped while the guard dies, it continues and sees that.
		g.family, err = family.Start(program, append([]string{Name}, os.Args[1:]...), environment, syscall.SIGCONT)
	}
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	g.word.give()
	return inherit(g.word.fd, false)
}

// supervised is what the guard knows of the supervisor: when it has ended, and then how.
type supervised struct {
	ended  <-chan struct{}
	status *syscall.WaitStatus
}

// watch returns when the supervisor has ended, and what it leaves behind is dead unless it was to be left.
func (g *guard) watch(signals, background, continued chan os.Signal, said <-chan byte, supervisor supervised) (End, error) {
	for {
		out, b := first(g.untold, g.out)
		select {
		case out <- b:
			g.untold = g.untold[1:]
		case s := <-signals:
			b := byte(s.(syscall.Signal))
			g.sent = g.sent.add(b)
			g.tell(b)
		case <-background:
			g.wanted()
		case <-continued:
			g.waited = false
			// Of a guard that was sent SIGSTOP COMMAND knows nothing. Without a terminal SIGTSTP has stopped COMMAND alone.
			g.tell(resumed)
		case b, open := <-said:
			if !open {
				said = nil
				continue
			}
			switch b {
			case look:
				if err := g.arm(); err != nil {
					return End{}, err
				}
			case stop:
				g.suspend(signals, continued)
			default:
				g.hear(b)
			}
		case <-g.alarm.c:
			if g.late() {
				g.say("the supervisor did not end COMMAND in time: killed")
				return End{Code: Lost}, nil
			}
			if err := g.arm(); err != nil {
				return End{}, err
			}
		case <-supervisor.ended:
			return g.conclude(said, *supervisor.status), nil
		}
	}
}

// hear notes what the supervisor says of the end.
func (g *guard) hear(b byte) {
	switch {
	case b == done:
		g.done = true
	case b >= died:
		g.end.Signal, g.end.All = syscall.Signal(b&ofDied), b >= diedAll
	}
}

// conclude returns how the run has ended, when the supervisor has, or the keeper was killed.
func (g *guard) conclude(said <-chan byte, status syscall.WaitStatus) End {
	if said != nil && status.Exited() {
		for b := range said { // up to the end of the link, which ends with the supervisor: not with a keeper that was killed
			g.hear(b)
		}
	}
	if g.done && status.Exited() {
		e := End{Code: status.ExitStatus()}
		// A signal that COMMAND has died of for another reason is no business of those who wait for this process.
		if s := g.end.Signal; Ends(s) && (g.end.All || slices.Contains(g.sent, byte(s))) {
			e.Signal, e.All = s, g.end.All
		}
		return e
	}
	g.word.killGroup()
	g.family.Kill()
	g.say("the supervisor has died, and with it the proof that the lock is held: COMMAND was killed")
	return End{Code: Lost}
}

// arm sets the alarm to when the guard has to act.
func (g *guard) arm() error {
	left, held := g.word.Left()
	if !held {
		return nil // until the next look
	}
	return g.alarm.set(Now() + max(left, again))
}

// again is after how long the guard kills again while it waits for the supervisor.
const again = 5 * time.Millisecond

// late kills COMMAND once the deadline has passed. The supervisor does so, too, and which of them is first does not
// matter. If it has not ended soon after, it is stopped, and late kills it and returns true when no process is left.
func (g *guard) late() bool {
	left, held := g.word.Left()
	if !held || left > 0 {
		return false
	}
	g.word.killGroup() // what can be killed without a look at all processes, first
	if left+g.word.slack() > 0 {
		g.family.KillBelow()
		return false
	}
	g.family.Kill()
	return true
}

// suspend stops the group that the shell knows, as Ctrl-Z would have, and tells the supervisor when it is continued.
// Nothing is stopped where there is no shell that would continue it.
func (g *guard) suspend(signals, continued chan os.Signal) {
	if continuable(relationOf) {
		for len(continued) > 0 {
			<-continued
		}
		// SIGTSTP for the others, a script for example. The runtime catches it for good once it was asked for.
		deaf := ignored(syscall.SIGTSTP)
		signal.Ignore(syscall.SIGTSTP)
		_ = syscall.Kill(0, syscall.SIGTSTP)
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
		<-continued
		if !deaf {
			signal.Notify(signals, syscall.SIGTSTP)
		}
	}
	g.tell(resumed)
}

// wanted is called when a process of this group has asked for the terminal from the background, and the kernel has
// stopped the others by SIGTTIN or SIGTTOU.
func (g *guard) wanted() {
	group := g.word.group() // before the look at the terminal, which is given back before COMMAND's group is none
	switch front := g.terminal.Foreground(); front {
	case syscall.Getpgrp(): // by now
		_ = syscall.Kill(0, syscall.SIGCONT)
	case group:
		g.waited = true
		g.tell(wanted)
	default: // the shell has put the job into the background, and is to see that it has stopped
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	}
}

// reclaim takes the terminal back from what has been killed. The supervisor does so, if it lives; a script that has
// started the guard would be stopped by its next look at the terminal.
func (g *guard) reclaim() {
	signal.Ignore(syscall.SIGTTOU)
	g.terminal.Return(syscall.Getpgrp(), 0)
	if g.waited {
		_ = syscall.Kill(0, syscall.SIGCONT)
	}
}

// tell has something told to the supervisor.
func (g *guard) tell(b byte) { g.untold = g.untold.add(b) }
