//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/cmd/farsync/internal/job"
	"github.com/farsync/farsync/cmd/farsync/internal/location"
	"github.com/farsync/farsync/cmd/farsync/internal/terminal"
	"github.com/farsync/farsync/internal/legible"
)

// A result is what --status says about a run.
type result struct {
	Schema  int             `json:"schema"`
	Outcome string          `json:"outcome"`        // ended, lost, taken, interrupted, failed
	Exit    int             `json:"exit"`           // of farsync
	Code    *int            `json:"code,omitempty"` // of COMMAND
	Signal  string          `json:"signal,omitempty"`
	Path    []string        `json:"path"`
	Token   []farsync.Token `json:"token,omitempty"`
	Waited  float64         `json:"waited"`         // seconds
	Held    float64         `json:"held"`           // seconds
	Kept    float64         `json:"kept,omitempty"` // seconds, at least, for which the service keeps the lock after the end
	Error   string          `json:"error,omitempty"`

	signal syscall.Signal // that COMMAND has died of, or that has ended the wait
	typed  bool           // on the terminal, when COMMAND had it
}

// interruptedError ends a wait when a signal has come, or the guard has died.
type interruptedError struct{ signal syscall.Signal }

func (e *interruptedError) Error() string { return "interrupted: " + e.signal.String() }

var errWaited = errors.New("the time of --wait has passed")

// once is run, in the supervisor.
func (w *work) once(link *guard.Link) guard.End {
	return w.report(w.during(link, func(ctx context.Context, store *farsync.Store, r *result) (err error) {
		_, err = w.turn(ctx, link, store, r)
		return err
	}))
}

// report writes the line of --status, and returns how the guard ends.
func (w *work) report(r *result, err error) guard.End {
	var interrupted *interruptedError
	var e *exit
	switch {
	case err == nil:
	case errors.As(err, &interrupted):
		r.Outcome, r.Exit, r.signal = "interrupted", codeSignal+int(interrupted.signal), interrupted.signal
	case errors.As(err, &e):
		r.Exit = e.code
	default:
		if r.Exit = w.code(err); r.Exit == codeTaken {
			r.Outcome, r.Exit = "taken", int(w.conflict)
		}
	}
	if err != nil {
		r.Error = words(err)
		if !w.json && (r.Outcome != "taken" || !w.quiet || w.skipped) {
			w.say(r.Error)
		}
	}
	line, err := json.Marshal(r)
	if err == nil && w.json {
		_, err = fmt.Fprintf(w.stderr, "%s\n", line)
	}
	if err == nil && w.status != "" {
		err = appendTo(w.status, append(line, '\n'))
	}
	if err != nil {
		w.say("--status " + legible.Text(w.status) + ": the line cannot be written: " + err.Error())
	}
	return guard.End{Code: r.Exit, Signal: r.signal, All: r.typed}
}

// appendTo waits for no reader: a pipe that nobody reads is as a disk that is full.
func appendTo(name string, line []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o666)
	if errors.Is(err, syscall.ENXIO) {
		return errors.New("it is a pipe that nobody reads: start what reads it before, or write the name of a file")
	}
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(forStatus)) // of a pipe; a file has none
	_, err = f.Write(line)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("it is a pipe that is full, and is not read")
	}
	return errors.Join(err, f.Close())
}

// forStatus is how long a reader may take to make room for a line.
const forStatus = time.Second

// during opens the Store for f, and closes it. ctx ends when a signal comes.
func (w *work) during(link *guard.Link, f func(context.Context, *farsync.Store, *result) error) (*result, error) {
	r := &result{Schema: 1, Outcome: "failed", Path: w.shown}
	opening, stop := interruptible(context.Background(), link)
	store, closed, err := w.open(opening, w.holder(link.Guard))
	interrupted := stop()
	switch {
	case interrupted != nil && err == nil:
		_ = w.ignore(errors.Join(store.Close(), closed()))
		return r, interrupted
	case interrupted != nil:
		return r, interrupted
	case err != nil:
		return r, &exit{codeOfOpen(err), err}
	}
	err = f(context.Background(), store, r)
	if r.Outcome == "lost" || r.Kept > 0 {
		return r, err // the session is over, and a service that does not answer would keep the caller waiting; or it is to run out
	}
	_ = w.ignore(store.Close())
	_ = w.ignore(closed())
	return r, err
}

// turn locks, runs COMMAND, and gives the lock back. Again says that COMMAND was ended because the lock was lost, and
// for no other reason.
func (w *work) turn(ctx context.Context, link *guard.Link, store *farsync.Store, r *result) (again bool, err error) {
	began := time.Now()
	holder := w.holder(link.Guard)
	waiting, stop := interruptible(ctx, link)
	show := func() {}
	screen := terminal.Open()
	defer screen.Close()
	s := &sight{app: w.app, store: store, holder: holder, width: terminal.Width(2)}
	if w.request.value != "" {
		s.holder = w.request.value
	}
	s.hidden = func() bool { return s.width > 0 && screen.Foreground() != link.Group }
	if !w.quiet && !w.json && !w.request.try {
		show = s.watch()
	}
	if w.wait.set && !w.request.try {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(waiting, w.wait.Duration, errWaited)
		defer cancel()
	}
	h, err := w.acquire(waiting, store, s.on)
	show()
	w.voice.flush() // what COMMAND writes comes behind it
	interrupted := stop()
	r.Waited = time.Since(began).Seconds()
	switch {
	case interrupted != nil:
		if err == nil {
			_ = h.Release()
		}
		return false, interrupted
	case err != nil && w.atLeast.set && w.code(err) == codeTaken:
		return false, w.skip(ctx, store, err)
	case err != nil:
		return false, err
	}
	r.Token = h.tokens()
	outcome, err := w.job(store, h, holder).Run(link, h)
	lost := w.conclude(outcome, err, r, "COMMAND was ended: ")
	rest := time.Until(h.since.Add(w.atLeast.Duration))
	due := w.atLeast.set && rest > 0 && err == nil && !lost
	sat := due && !outcome.Orphaned && !outcome.Interrupted
	if sat {
		sitOut(link, h, rest)
	}
	r.Held = time.Since(h.since).Seconds()
	if rest := time.Until(h.since.Add(w.atLeast.Duration)); due && rest > 0 && h.Err() == nil {
		w.bequeath(h, rest, r)
		return false, nil
	}
	switch released := h.Release(); {
	case lost || released == nil:
	case !errors.Is(released, farsync.ErrLost):
		_ = w.ignore(released) // it was held to the end
	case sat: // and to the end of COMMAND, which has done its work
		r.Error = words(released)
		w.remark("COMMAND has ended, and the lock was lost after it, before the time of --at-least had passed: " + r.Error)
	default: // nobody knows since when
		outcome.Lost = released
		lost = w.conclude(outcome, err, r, "COMMAND has ended, and the lock was lost before it was given back: ")
	}
	if err != nil {
		return false, &exit{cannotRun(err), fmt.Errorf("%s: %w", w.base(), err)}
	}
	return lost && !outcome.Interrupted, nil
}

// skip returns the error of a run that was left out, with who holds the lock. It is to be said even with -q where the
// lock was taken longer ago than half of the time of --at-least. Clocks are hardly that far apart: it was taken for the
// run before, for the time, or COMMAND, is longer than the time between two runs.
func (w *work) skip(ctx context.Context, store *farsync.Store, err error) error {
	within, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	failed, ok := errors.AsType[*farsync.Error](err)
	if !ok {
		return err
	}
	list, looked := store.Participants(within, failed.Path)
	if looked != nil || len(list) == 0 || !list[0].Held || list[0].Since.IsZero() {
		return err
	}
	age := time.Since(list[0].Since)
	w.skipped = age > w.atLeast.Duration/2
	return fmt.Errorf("%w; %s is skipped: %s is held by %s, there for %s, which runs its COMMAND, waits for its --at-least, or has ended within that time",
		err, w.base(), shown(w.location, failed.Path), name(list[0].Holder), ago(age))
}

// conclude notes how COMMAND has ended, and says what has become of it if the lock was lost.
func (w *work) conclude(o job.Outcome, err error, r *result, became string) (lost bool) {
	if err != nil {
		return false
	}
	r.Outcome = "ended"
	switch {
	case o.Status.Exited():
		code := o.Status.ExitStatus()
		r.Code, r.Exit = &code, code
	case o.Status.Signaled():
		s := o.Status.Signal()
		r.Signal, r.Exit, r.signal = s.String(), codeSignal+int(s), s
		r.typed = o.Typed && (s == syscall.SIGINT || s == syscall.SIGQUIT)
	}
	if o.Lost == nil && !o.Late {
		return false
	}
	r.Outcome, r.Exit, r.signal = "lost", codeLost, 0
	if o.Lost != nil {
		r.Error = words(o.Lost)
		w.remark(became + r.Error) // the line of JSON has it, too
	}
	return true
}

// bequeath leaves the lock to the service, which keeps it until the session runs out: farsync ends before the time of
// --at-least is over, and other hosts would run COMMAND again if it gave the lock back.
func (w *work) bequeath(h *held, rest time.Duration, r *result) {
	kept := max(time.Until(h.Deadline()), time.Millisecond)
	r.Kept = kept.Seconds()
	text := fmt.Sprintf("ended before the time of --at-least had passed: the service keeps the lock for %v more", rounding(kept))
	if short := rest - kept; short > 0 {
		text += fmt.Sprintf(", which is %v short of --at-least: a host whose clock is late by more may run COMMAND again", rounding(short))
		zookeeper := w.location.Scheme == "zk"
		if ttl := outlasting(w.atLeast.Duration, zookeeper); ttl > time.Duration(w.granted.Load()) && ttl <= location.MostTTL {
			text += fmt.Sprintf(". With --ttl %v it could not", ttl)
			if zookeeper {
				text += ", if the service is configured to grant that"
			}
		}
		r.Error = text
	}
	w.remark(text) // the line of JSON has it, too
}

// outlasting is a TTL with which the service keeps the lock for the time of --at-least, whenever farsync ends. Right
// before a lease is renewed it has three quarters of its TTL left, on ZooKeeper half of it, and a margin of a twentieth
// less; the rest is for renewals that take a while.
func outlasting(atLeast time.Duration, zookeeper bool) time.Duration {
	ttl := min(atLeast, location.MostTTL)
	if zookeeper {
		ttl *= 5
	} else {
		ttl *= 3
	}
	return (ttl/2 + time.Second - 1).Truncate(time.Second)
}

// rounding is a time as people read it.
func rounding(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// sitOut waits for the rest of the time, while the lock is held and no signal comes.
func sitOut(link *guard.Link, h *held, rest time.Duration) {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-h.Done():
			return
		case <-link.Gone:
			return
		case <-link.Wanted:
			link.Continue()
		case s := <-link.Signals:
			if guard.Ends(s) {
				return
			}
		}
	}
}

// interruptible returns a context that is done when a signal comes that ends the wait, or the guard dies. Stop joins
// its goroutine, waits until the shell continues a guard that it has stopped, and returns why the context has ended.
func interruptible(parent context.Context, link *guard.Link) (ctx context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(parent)
	enough := make(chan struct{})
	var why *interruptedError
	var watching sync.WaitGroup
	watching.Go(func() {
		stopped := false
		for over := enough; over != nil || stopped; {
			select {
			case <-over:
				over = nil
			case <-link.Gone:
				why = &interruptedError{syscall.SIGHUP}
			case <-link.Resumed:
				stopped = false
			case <-link.Wanted:
				link.Continue() // COMMAND has ended meanwhile
			case s := <-link.Signals:
				if guard.Ends(s) {
					why = &interruptedError{s}
				}
				if s == syscall.SIGTSTP {
					stopped = true
					link.Stop()
				}
			}
			if why != nil {
				cancel(why)
				return
			}
		}
	})
	return ctx, func() error {
		close(enough)
		watching.Wait()
		cancel(nil)
		if why == nil {
			return nil
		}
		return why
	}
}
