//go:build unix

// Package job runs COMMAND under a lock: no longer than the lock is held.
package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/farsync/farsync/cmd/farsync/internal/family"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/terminal"
)

// A Lease is what a Job needs to know of what is held.
type Lease interface {
	Deadline() time.Time
	Done() <-chan struct{}
	Err() error
	Asked() <-chan struct{}
}

// Leftovers says what becomes of processes that COMMAND leaves running.
type Leftovers string

// The values of Leftovers.
const (
	Wait  Leftovers = "wait"  // the lock is held until they have ended
	Kill  Leftovers = "kill"  // they are killed
	Leave Leftovers = "leave" // they go on without the lock
)

// A Job is a COMMAND, and how it is ended.
type Job struct {
	Path        string
	Arguments   []string // with its name first
	Environment []string
	TTL         time.Duration  // that the service grants, by which the margin of the lease is reckoned
	Oldest      time.Duration  // how old that gets from which a lease counts, as long as it is renewed in time
	Grace       time.Duration  // how long before it would be killed it is told to end; MostGrace bounds it
	Signal      syscall.Signal // by which
	TermIfAsked bool           // also when another client asks for the lock
	Leftovers   Leftovers
	Say         func(string)      // what goes wrong
	Remark      func(string)      // what goes on
	Waits       func(left string) // is told once which processes are waited for, and does not wait for anything
}

// An Outcome is how a Job has ended. All that it had started is dead then, unless it was to be left.
type Outcome struct {
	Status syscall.WaitStatus // of COMMAND
	// Lost is why the lease ended before COMMAND did, or nil.
	Lost error
	// Late is true if COMMAND was told to end because the lease was not renewed.
	Late bool
	// Interrupted is true if a signal was passed on that ends programs, also when COMMAND had ended already. Many programs
	// read their settings again by SIGHUP, or show where they are by SIGQUIT, and go on: these two count if COMMAND has
	// died of one, or was about to end.
	Interrupted bool
	// Orphaned is true if COMMAND was killed because the guard has died.
	Orphaned bool
	// Typed is true if COMMAND had the terminal when it ended, and was not told to end: a signal that it has died of was
	// typed there, as Ctrl-C is.
	Typed bool
}

// A run is a Job that runs.
type run struct {
	*Job
	Outcome
	link     *guard.Link
	lease    Lease
	family   *family.Family
	terminal *terminal.Terminal
	told     bool // COMMAND was told to end
	owns     bool // COMMAND has the terminal whenever the guard would have it
	lag      lag
	hint     syscall.Signal // SIGHUP or SIGQUIT, when one was passed on
}

// Run runs COMMAND, and returns when it has ended with all that it has started, or was ended. An error means that it
// was not started.
func (j *Job) Run(link *guard.Link, lease Lease) (Outcome, error) {
	r := &run{Job: j, link: link, lease: lease, terminal: terminal.Open()}
	defer r.terminal.Close()
	r.renewed()
	link.Look()
	defer link.Word.Set(time.Time{}, 0)
	if err := lease.Err(); err != nil || time.Until(lease.Deadline()) < r.margin() {
		return Outcome{Lost: cmp.Or(err, errNotRenewed)}, nil
	}
	if err := r.start(); err != nil {
		return Outcome{}, err
	}
	defer guard.Hurry()() // COMMAND has started, and runs as it would by itself
	link.Word.SetGroup(r.family.Group(), r.family.Born())
	defer link.Word.SetGroup(0, 0)
	r.foreground()
	r.attend()
	select {
	case <-r.family.Ended:
		r.Status = r.family.Status
		r.conclude()
		r.Interrupted = r.Interrupted || !r.Late && r.Status.Signaled() && r.Status.Signal() == r.hint
	default:
	}
	r.terminal.Return(link.Group, r.family.Group())
	if err := lease.Err(); err != nil && r.Lost == nil {
		r.Lost = err
	}
	return r.Outcome, nil
}

// start starts COMMAND, which inherits the descriptor of the Word.
func (r *run) start() (err error) {
	if err := r.link.Share(true); err != nil {
		return err
	}
	defer r.link.Starting()()
	environment := append(slices.Clip(r.Environment), r.link.Environment())
	r.family, err = family.Start(r.Path, r.Arguments, environment, syscall.SIGKILL)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without #!, which execvp, and so flock, has run by sh.
		r.family, err = family.Start("/bin/sh", append([]string{"/bin/sh", r.Path}, r.Arguments[1:]...), environment, syscall.SIGKILL)
	}
	return errors.Join(err, r.link.Share(false))
}

// listenAfter is for how long COMMAND runs, where a third of the TTL is longer, before it is listened for whether
// another client asks for the lock. That is a watch at the service, and a short run does not pay for it.
const listenAfter = 3 * time.Second

// attend returns when the family is over, or is to be left.
func (r *run) attend() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	ended := r.family.Ended
	var asked <-chan struct{}
	listen := time.NewTimer(min(r.TTL/3, listenAfter))
	defer listen.Stop()
	unsaid := time.NewTimer(0) // runs while COMMAND has ended, and what it has left running has not been named
	unsaid.Stop()
	defer unsaid.Stop()
	again := firstLook
	for {
		select {
		case <-r.lease.Done():
			r.Lost = r.lease.Err()
			r.family.Kill()
			return
		case <-r.link.Gone:
			r.Orphaned = true
			r.family.Kill()
			return
		case <-tick.C:
			tick.Reset(r.renewed())
			if r.Lost != nil {
				r.family.Kill()
				return
			}
		case <-listen.C:
			asked = r.lease.Asked()
		case <-asked:
			asked = nil
			if r.TermIfAsked {
				r.tell()
			}
			r.Remark("another client asks for the lock")
		case s := <-r.link.Signals:
			r.pass(s, ended == nil)
		case s := <-r.family.Stopped:
			r.stopped(s)
		case <-r.link.Resumed:
			r.resumed()
		case <-r.link.Wanted:
			r.yield()
		case <-ended:
			ended = nil
			r.conclude()
			r.terminal.Return(r.link.Group, r.family.Group())
			r.link.Word.SetGroup(0, 0)
			switch r.Leftovers {
			case Leave:
				r.family.Leave()
				return
			case Kill:
				r.family.Kill()
				return
			}
			unsaid.Reset(0)
		case <-unsaid.C:
			if !r.nameLeft() {
				unsaid.Reset(again)
				again = min(2*again, mostLook)
			}
		case <-r.family.Over:
			return
		}
	}
}

// renewed notes until when COMMAND may live, and tells it to end when that is near. It returns when to look again: the
// nearer the end, the sooner, so that what the guard knows is not out of date. Lost is set when the end has come.
//
// On a machine that lets this process wait for a processor the end is as much earlier, for the guard too.
func (r *run) renewed() time.Duration {
	end := r.lease.Deadline().Add(-r.margin() - min(r.lag.ran(time.Now()), r.mostLag()))
	r.link.Word.Set(end, r.margin()/2)
	left := time.Until(end)
	next := min(max(left/8, 5*time.Millisecond), r.TTL/20)
	switch {
	case r.family == nil:
	case left <= 0:
		r.Lost = errNotRenewed
	case left <= r.Grace && !r.Late:
		r.Late = true
		r.tell()
		r.Say(fmt.Sprintf("the lock was not renewed, and ends in %v: COMMAND is told to end", left.Round(time.Millisecond)))
	case !r.Late:
		next = min(next, left-r.Grace)
	}
	next = min(next, max(left, 0))
	r.lag.planned = time.Now().Add(next)
	return next
}

var errNotRenewed = errors.New("the lock was not renewed in time")

// margin is how long before the service may give the lock to another client its lease ends. COMMAND is killed as long
// before that: a lease ends at once, and a process when the kernel gets to it, which on a busy machine takes a while.
func (j *Job) margin() time.Duration { return max(j.TTL/20, 100*time.Millisecond) }

// least is how much is left for COMMAND right before a lease is renewed in time: the lease ends a margin before the
// service may give the lock away, and COMMAND another before that.
func (j *Job) least() time.Duration { return j.TTL - j.Oldest - 2*j.margin() }

// MostGrace bounds the grace: half of the TTL, and a tenth of it less than what is left right before a renewal, which
// takes a while.
func (j *Job) MostGrace() time.Duration { return max(0, min(j.TTL/2, j.least()-j.TTL/10)) }

// mostLag bounds by how much the end is earlier. A lease that is renewed in time is never so near its end that COMMAND
// would be told, and its renewal may take as long again.
func (j *Job) mostLag() time.Duration { return max(0, min(j.TTL/8, (j.least()-j.Grace)/2)) }

// tell tells COMMAND to end. A COMMAND that is stopped is continued, for else it could not end.
func (r *run) tell() {
	r.told = true
	r.family.Signal(r.Signal)
	r.family.Signal(syscall.SIGCONT)
}

// pass passes a signal on. A signal that ends COMMAND is to be heard also by a COMMAND that is stopped.
func (r *run) pass(s syscall.Signal, ended bool) {
	r.family.Signal(s)
	if !guard.Ends(s) {
		return
	}
	r.family.Signal(syscall.SIGCONT)
	if s == syscall.SIGINT || s == syscall.SIGTERM || r.Late || ended {
		r.Interrupted = true
		return
	}
	r.hint = s
}

// conclude notes whether COMMAND had the terminal to its end.
func (r *run) conclude() {
	r.Typed = r.Typed || !r.told && r.terminal.Foreground() == r.family.Group()
}

// Between two looks for what COMMAND has left running, until it is found.
const (
	firstLook = 10 * time.Millisecond
	mostLook  = time.Second
)

// nameLeft says what COMMAND has left running, and reports whether it has found it. One look may find nothing although
// something is there: a process whose parent ends between the looks at the two comes from nobody, and a process that is
// being started is not listed.
func (r *run) nameLeft() bool {
	left := r.family.Left()
	if len(left) == 0 {
		return false
	}
	names := make([]string, 0, len(left))
	for _, p := range left[:min(len(left), 5)] {
		names = append(names, fmt.Sprintf("%d %s", p.PID, p.Name))
	}
	list := strings.Join(names, ", ")
	if more := len(left) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	r.Remark(fmt.Sprintf("COMMAND has ended, and left %s: waiting for %s", counted(len(left), "process", "processes"), list))
	r.Waits(list)
	return true
}

// counted is so many of a thing, in words.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// foreground gives COMMAND the terminal if it reads from it, and the guard has it. So COMMAND is in the foreground from
// the beginning, where git shows how far it is, and wget does not take it for a job in the background. In front of a
// pipe it is not given before COMMAND asks for it: what reads the pipe is in the group of the guard, and more likely to
// want the terminal.
//
// It is COMMAND that asks when the kernel stops it by SIGTTIN or SIGTTOU, and another process of the guard's group when
// the guard gets one of these. Who asks last has it, so no order in which they do leaves one stopped.
func (r *run) foreground() {
	if r.terminal != nil && r.terminal.Reads && !r.terminal.Piped {
		r.owns = true
		r.handOver()
	}
}

// yield is called when a process of the guard's group, stopped by now, has asked for the terminal that COMMAND has.
func (r *run) yield() {
	r.owns = false
	r.terminal.Return(r.link.Group, r.family.Group())
	r.link.Continue()
}

// handOver gives COMMAND the terminal if the guard has it.
func (r *run) handOver() {
	if r.owns && r.terminal.Foreground() == r.link.Group {
		r.terminal.Give(r.family.Group())
	}
}

// stopped is called when COMMAND was stopped.
func (r *run) stopped(s syscall.Signal) {
	if r.terminal == nil {
		return
	}
	group := r.terminal.Foreground()
	if (s == syscall.SIGTTIN || s == syscall.SIGTTOU) && (group == r.link.Group || group == r.family.Group()) {
		// It has read before it was given the terminal, or wants it although its input is another.
		r.owns = true
		r.handOver()
		r.family.Signal(syscall.SIGCONT)
		return
	}
	if group == r.family.Group() {
		r.terminal.Give(r.link.Group)
	}
	r.link.Stop()
}

// resumed is called when the shell has continued the guard, in the foreground or in the background.
func (r *run) resumed() {
	r.handOver()
	r.family.Signal(syscall.SIGCONT)
}
