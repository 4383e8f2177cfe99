package recipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// An attempt to open a session takes openFirst at most, the next twice as long, up to openLast, all of them together openMost if the
	// caller has set no deadline.
	openFirst = 2 * time.Second
	openLast  = 32 * time.Second
	openMost  = 5 * time.Second
)

// A Store is farsync's client of one coordination service, below the farsync.Store that users have. It has one session
// at the service, however many locks are made on it. When the session is lost, everything held under it is lost, and the
// Store opens another by itself: every primitive stays usable.
//
// All policy is here: when a request is sent again, what an answer that did not come means, what is removed in the
// background, when a session is renewed and when it is given up.
type Store struct {
	service driver.Service
	options Options
	log     *slog.Logger
	states  *announcer
	lines   lines
	sights  chan struct{} // has a value for each request of sight that is under way
	hushed  time.Time     // the end of the silence that was logged, zero after that; the keeper's own

	life context.Context // the Store's own: done when it is closed, with the cause
	shut context.CancelCauseFunc

	inside  insiders
	teller  teller
	lapses  lapses
	earlier earlier
	drops   drops

	unstuck atomic.Uint64 // how many removals were confirmed after an attempt that had failed

	ending   atomic.Bool   // by the first Close
	finished chan struct{} // closed when that is done, with what it returned
	result   error

	mu      sync.Mutex
	current *session       // the session in use; nil while there is none
	without error          // error of the last failed attempt to open a session, for messages; nil if no attempt failed since there was one
	changed chan struct{}  // closed when current changes, and replaced
	unended error          // what the service said to the end of the last session, set by tasks
	tasks   sync.WaitGroup // the keeper of the session and all cleanup; added to under mu while life lasts
}

// Open opens a session at the service and returns the Store in it, which closes the service in the end. ctx governs Open
// alone.
//
// Open fails if the service does not answer until ctx ends, or within 5 seconds if ctx has no deadline, with an error that wraps
// ErrUnavailable; if the service refuses; and if an option is not valid. Then the service is closed. With the option Late a
// service that does not answer is no reason to fail.
func Open(ctx context.Context, service driver.Service, o Options) (*Store, error) {
	resolved, err := o.resolve()
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	s := &Store{service: service, options: resolved, log: aside.Logger(resolved.Logger), changed: make(chan struct{}), finished: make(chan struct{})}
	s.sights = make(chan struct{}, maxSights)
	s.teller.store = s
	if s.options.Name != "" {
		s.log = s.log.With("store", s.options.Name)
	}
	s.life, s.shut = context.WithCancelCause(context.Background())
	first, err := s.first(ctx)
	if late := resolved.Late && errors.Is(err, ErrUnavailable) && !errors.Is(err, context.Canceled); err != nil && !late {
		s.shut(ErrClosed)
		err = errors.Join(err, service.Close())
		aside.Close(s.log) // the driver may have written into it
		return nil, err
	}
	s.states = newAnnouncer(resolved.OnState, s.caught)
	if first == nil { // it comes late
		s.announce(Lost)
		s.tasks.Go(func() {
			if in := s.reopen(); in != nil {
				s.keep(in)
			}
		})
		return s, nil
	}
	s.use(first)
	s.tasks.Go(func() { s.keep(first) })
	return s, nil
}

// first opens the first session. A service that refuses is not asked again.
func (s *Store) first(ctx context.Context) (*session, error) {
	within := ctx
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, openMost)
		defer cancel()
	}
	var why error // of an attempt that was cut short only if no other said as much
	for limit, delay := openFirst, retryFirst; ; limit, delay = min(2*limit, openLast), min(2*delay, reopenMost) {
		in, err := s.open(within, limit)
		if why == nil || within.Err() == nil || saysMore(err, why) {
			why = err
		}
		switch {
		case err == nil:
			return in, nil
		case ctx.Err() != nil:
			return nil, gaveUp(ctx, why, true)
		case s.service.Outcome(err) == driver.Refused:
			return nil, err
		case s.service.Outcome(err) == driver.Closed:
			return nil, closedBelow(err)
		case within.Err() != nil || pause.For(within, delay) != nil:
			if ctx.Err() != nil {
				return nil, gaveUp(ctx, why, true)
			}
			return nil, fmt.Errorf("%w: %v", ErrUnavailable, why) //nolint:errorlint // the chain has what happened to the caller
		}
	}
}

// open makes one attempt to open a session. If its answer is lost, a session without entries runs out by itself.
func (s *Store) open(ctx context.Context, limit time.Duration) (*session, error) {
	attempt, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	slept := suspended()
	opened, err := s.service.Open(attempt, s.options.TTL)
	if err != nil {
		return nil, err
	}
	in := newSession(s.life, opened, suspended, slept)
	in.earlier = &s.earlier
	if in.History() != "" {
		in.made = map[string]uint64{}
	}
	return in, nil
}

// saysMore reports whether an attempt's error has all that an earlier one says, and more. That its time has run out says nothing.
func saysMore(err, earlier error) bool {
	said := earlier.Error()
	return err != nil && (said == context.DeadlineExceeded.Error() || strings.HasPrefix(err.Error(), said))
}

// use makes in the session of all calls to come, or leaves them without one. The state comes first: whoever holds something in the
// session finds the Store Connected, or Recovering.
func (s *Store) use(in *session) {
	if in != nil {
		s.announce(in.state())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.without = in, nil
	close(s.changed)
	s.changed = make(chan struct{})
}

// inUse returns the session of the calls that come now, or nil.
func (s *Store) inUse() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// session waits for a session that is alive. The error is what the call returns.
func (s *Store) session(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		in, changed := s.current, s.changed
		s.mu.Unlock()
		if s.life.Err() == nil && ctx.Err() == nil && in != nil && in.err() == nil {
			return in, nil
		}
		select {
		case <-s.life.Done():
			return nil, context.Cause(s.life)
		case <-ctx.Done():
			var v verdict
			if in == nil || in.err() != nil {
				v.err = s.noSession()
			}
			return nil, s.failure(ctx, v)
		case <-changed:
		}
	}
}

// noSession is why there is no session, for people.
func (s *Store) noSession() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.without == nil {
		return errNoSession
	}
	return fmt.Errorf("%w: %w", errNoSession, s.without)
}

// announce notes the state of the Store, and reports whether it is news.
func (s *Store) announce(state State) bool { return s.states.announce(state) }

// background runs f in a goroutine that Close joins. Once the Store is closed it runs nothing and returns false: then the
// session ends, and with it what f was to remove.
func (s *Store) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.life.Err() == nil
	if open {
		s.tasks.Go(f)
	}
	return open
}

// stop begins the end of the Store, and reports whether it had not begun. The cause must wrap ErrClosed, and the first
// one stays.
func (s *Store) stop(cause error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.life.Err() == nil
	s.shut(cause)
	return first
}

// closedBelow is the error of a Store whose client was closed below it. The client's words are for people alone:
// mostly it is that a context of its own was cancelled, which callers would take for theirs.
func closedBelow(why error) error { return fmt.Errorf("%w: %v", ErrClosed, why) } //nolint:errorlint // for people

// stopWith is stop for a Store whose client was closed below it, which is nobody's Close of the Store: so the log says
// what has ended with it. There may be no session.
func (s *Store) stopWith(in *session, why error) {
	var held []*grant
	if in != nil {
		held = in.holding()
	}
	cause := closedBelow(why)
	if !s.stop(cause) {
		return
	}
	s.log.Warn("store ended with its client", "locks", len(held), "cause", cause)
	s.noteAllLost(held, cause)
}

// revoke ends a session at the service, after it has ended here.
func (s *Store) revoke(in *session) error {
	ctx, cancel := context.WithTimeout(context.Background(), in.ttl/3)
	defer cancel()
	if err := in.Close(ctx); err != nil {
		return fmt.Errorf("%w: the session runs out by itself in %v: %v", ErrUnavailable, in.ttl, err) //nolint:errorlint // as above
	}
	return nil
}

// end is Close for a caller that is not the hook.
func (s *Store) end() error {
	if !s.ending.Swap(true) {
		s.result = s.finish()
		close(s.finished)
	}
	<-s.finished
	return s.result
}

// finish is what Close does the first time.
func (s *Store) finish() error {
	s.stop(ErrClosed)
	s.tasks.Wait()
	patience, cancel := context.WithTimeout(context.Background(), closePatience)
	s.states.stop(patience)
	s.teller.stop(patience)
	cancel()
	err := errors.Join(s.unended, s.service.Close())
	aside.Close(s.log)
	return err
}

// Close ends all leases and all waiting on this Store with ErrClosed, and ends the session, which frees what was held
// and takes what waited out of the queues. It returns when everything that the Store has started has ended. If the
// service does not confirm the end of the session within a third of the TTL, the error wraps ErrUnavailable, and the
// session ends by itself, one TTL later. Close waits until OnState and the Trace were told everything, for a second at
// most, and then until the Logger has written everything, for another; none of them is called after that. A second
// Close returns the same.
//
// A Close by OnState, or by a function of a Trace that a goroutine of the Store calls, begins all that and returns nil
// at once: Close waits for that goroutine.
func (s *Store) Close() error {
	if s.states.within() || s.inside.has() {
		s.stop(ErrClosed)
		go func() { _ = s.end() }() // ends when the function has returned; any other Close joins it
		return nil
	}
	return s.end()
}

// State returns how the Store stands with its service, as OnState was told last. Once the Store was closed it is Lost, which OnState is not told.
func (s *Store) State() State {
	if s.life.Err() != nil {
		return Lost
	}
	return s.states.state()
}

// Name returns the Name option.
func (s *Store) Name() string { return s.options.Name }
