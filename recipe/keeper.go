package recipe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// After a lost session the next is opened after a random part of a time that doubles from reopenFirst to
	// reopenMost.
	reopenFirst = 50 * time.Millisecond
	reopenMost  = 2 * time.Second
)

// A KeptSession is a backend's session: a Session, and what the service calls it.
type KeptSession interface {
	Err() error
	End(cause error)
	Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc)
}

// A Keeper is the part of a Store that is the same for every backend whose sessions are renewed from here: it keeps
// the Store in a session, opens the next when one is lost, owns what runs behind, and ends all of it on Close.
type Keeper[S KeptSession] struct {
	// Open asks the service for a session.
	Open func(ctx context.Context) (S, error)
	// Keep renews a session until it is over, or ctx is.
	Keep func(ctx context.Context, s S)
	// Drop gets rid of what a lost session has left here. It must not end it at the service: its holders need the time
	// that is left there to stop. It may be nil.
	Drop func(s S)
	// Finish ends a session at the service, after it has ended here, because the Store is closed.
	Finish func(s S) error
	// Log is told of what happens to sessions. It must not be nil.
	Log *slog.Logger
	// OnState may be nil.
	OnState func(State)

	announcer *Announcer
	life      context.Context // the Store's own: done when it is closed, with the cause
	shut      context.CancelCauseFunc
	unended   error // what Finish said, set by tasks

	mu      sync.Mutex
	live    bool // whether current is a session that may be used
	current S
	changed chan struct{} // closed when current or live changes, and replaced
	closed  bool
	tasks   sync.WaitGroup // keep and what runs behind; added to under mu while not closed
}

// Start opens the first session, and keeps the Store in one from then on, until Close.
func (k *Keeper[S]) Start(ctx context.Context) error {
	first, err := k.Open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return GaveUp(ctx, err)
		}
		return err
	}
	k.life, k.shut = context.WithCancelCause(context.Background())
	k.announcer = NewAnnouncer(k.OnState)
	k.changed = make(chan struct{})
	k.set(first, true)
	k.tasks.Go(func() { k.keep(first) })
	return nil
}

// keep runs in one goroutine, which Close joins.
func (k *Keeper[S]) keep(current S) {
	for {
		k.set(current, true)
		k.Announce(Connected)
		k.Log.Info("session open")
		k.Keep(k.life, current)
		if k.life.Err() != nil {
			current.End(context.Cause(k.life))
			k.set(current, false)
			k.unended = k.Finish(current)
			return
		}
		k.set(current, false)
		k.Announce(Lost)
		k.Log.Warn("session lost", "cause", current.Err())
		if k.Drop != nil {
			k.Drop(current)
		}
		var ok bool
		if current, ok = k.reopen(); !ok {
			return
		}
	}
}

// reopen tries until there is a session, or the Store is closed.
func (k *Keeper[S]) reopen() (next S, ok bool) {
	for delay := reopenFirst; ; delay = min(2*delay, reopenMost) {
		if Pause(k.life, rand.N(delay)) != nil {
			return next, false
		}
		next, err := k.Open(k.life)
		if err == nil {
			return next, true
		}
		k.Log.Warn("no new session yet", "error", err)
	}
}

func (k *Keeper[S]) set(current S, live bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.live = current, live
	close(k.changed)
	k.changed = make(chan struct{})
}

// Session waits for a session that is alive.
func (k *Keeper[S]) Session(ctx context.Context) (S, error) {
	for {
		k.mu.Lock()
		current, live, changed := k.current, k.live, k.changed
		k.mu.Unlock()
		if live && current.Err() == nil {
			return current, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return current, errNoSession
		}
	}
}

var errNoSession = errors.New("no session with the service")

// Announce tells OnState of a state, and reports whether it is news.
func (k *Keeper[S]) Announce(state State) bool { return k.announcer.Announce(state) }

// Enter returns a context for a call: it ends with ctx or with the Store.
func (k *Keeper[S]) Enter(ctx context.Context) (bound context.Context, leave func()) {
	bound, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(k.life, func() { end(context.Cause(k.life)) })
	return bound, func() { stop(); end(nil) }
}

// InSession makes a call in a session that is alive, under a context that ends with it, and again in the next one if the
// session ends before the call has succeeded. It is for calls that leave nothing behind but what goes with their session.
// The error is Verdict's.
func (k *Keeper[S]) InSession(ctx context.Context, call func(ctx context.Context, s S) error) error {
	in, leave := k.Enter(ctx)
	defer leave()
	for {
		current, err := k.Session(in)
		if err != nil {
			return k.Verdict(ctx, err)
		}
		bound, unbind := current.Bind(in)
		err = call(bound, current)
		unbind()
		switch {
		case err == nil:
			return nil
		case in.Err() != nil || current.Err() == nil:
			return k.Verdict(ctx, err)
		}
	}
}

// Verdict is what a call returns that failed with err: ErrClosed if the Store was closed, GaveUp's error if ctx, the
// caller's own, has ended, otherwise err.
func (k *Keeper[S]) Verdict(ctx context.Context, err error) error {
	switch {
	case k.life.Err() != nil:
		return context.Cause(k.life)
	case ctx.Err() != nil:
		return GaveUp(ctx, err)
	default:
		return err
	}
}

// Behind runs f in a goroutine that Close joins. The context it gets ends with the Store. Once the Store is closed
// nothing is run, and Behind returns false: then the session goes, and with it what f was to remove.
func (k *Keeper[S]) Behind(f func(ctx context.Context)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.tasks.Go(func() { f(k.life) })
	}
	return !k.closed
}

// End begins the end of the Store, and reports whether it was the first to do so. The cause must wrap ErrClosed.
func (k *Keeper[S]) End(cause error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.closed = true
	k.shut(cause)
	return true
}

// Close ends the Store and returns when everything that it started has ended. The first call returns what Finish
// said, others nil.
func (k *Keeper[S]) Close() error {
	first := k.End(ErrClosed)
	k.tasks.Wait()
	k.announcer.Stop()
	if first {
		return k.unended
	}
	return nil
}

// Pause waits for d, or until ctx ends; then it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
