package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Session is the client's view of a server-side session: until when the server is proved to keep it, and thereby
// every entry made in it. A backend makes one when the server has granted it, extends it when the server has renewed
// it, and ends it when the server says that it is over or the Store is closed.
//
// A Session ends by itself when its deadline passes, on the monotonic clock. It never comes back: an answer that
// arrives after the deadline belongs to a session that everybody has already been told is over.
type Session struct {
	ttl  time.Duration
	life context.Context // the session's own, not a caller's: done once it is over
	end  context.CancelCauseFunc

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
}

var errDeadline = errors.New("no renewal was acknowledged in time")

// NewSession returns a session that the server keeps for ttl after each renewal, and that counts as alive until
// deadline. The deadline must lie before the earliest moment at which the server can end the session: count it from
// when the request was sent, never from when its answer came, and take Margin off.
func NewSession(ttl time.Duration, deadline time.Time) *Session {
	s := &Session{ttl: ttl, deadline: deadline}
	s.life, s.end = context.WithCancelCause(context.Background())
	// Under mu, for if deadline has passed the timer's goroutine is there before we are back.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(time.Until(deadline), s.expire)
	return s
}

// Margin is how long before the server may end a session its deadline lies: the larger of ttl/20 and 100 ms. It is for
// the holder to stop in.
func Margin(ttl time.Duration) time.Duration {
	return max(ttl/20, 100*time.Millisecond)
}

// Extend moves the deadline on, and reports whether the session is alive. A deadline earlier than the present one
// changes nothing.
func (s *Session) Extend(deadline time.Time) bool {
	if s.Err() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Once more, now that nobody can end the session in between by the clock: a lease that was seen as lost must not
	// be seen alive again.
	if !time.Now().Before(s.deadline) || s.life.Err() != nil {
		return false
	}
	if deadline.After(s.deadline) {
		s.deadline = deadline
		s.timer.Reset(time.Until(deadline))
	}
	return true
}

// End ends the session, unless it has ended. Err wraps ErrLost and cause from now on, or is ErrClosed if that is the
// cause.
func (s *Session) End(cause error) {
	if !errors.Is(cause, ErrClosed) {
		cause = fmt.Errorf("%w: %w", ErrLost, cause)
	}
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	s.end(cause)
}

// expire runs on the timer. The deadline may have moved on since the timer was set off.
func (s *Session) expire() {
	s.mu.Lock()
	left := time.Until(s.deadline)
	if left > 0 && s.life.Err() == nil {
		s.timer.Reset(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		s.End(errDeadline)
	}
}

// Done is closed when the session is over.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Err is nil while the session is alive. It looks at the clock, for the timer's goroutine may be late: after the
// process was stopped, a caller may run before it.
func (s *Session) Err() error {
	if s.life.Err() == nil {
		s.mu.Lock()
		over := !time.Now().Before(s.deadline)
		s.mu.Unlock()
		if over {
			s.End(errDeadline)
		}
	}
	return context.Cause(s.life)
}

// Deadline is when the session ends unless it is renewed before.
func (s *Session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

// TTL is how long the server keeps the session without a renewal.
func (s *Session) TTL() time.Duration { return s.ttl }

// Bind returns a context that ends with ctx or with the session, and then has its cause. The caller must call cancel.
func (s *Session) Bind(ctx context.Context) (bound context.Context, cancel context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { end(context.Cause(s.life)) })
	return bound, func() { stop(); end(nil) }
}
