package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// A session is the Store's view of one session at the service: until when the service is proved to keep it, and with it
// every entry created in it.
//
// A session ends here before it ends there. Its deadline counts from when a renewal was sent, the service's deadline from
// when it was processed, which is later. The session ends by itself when the deadline passes, on the monotonic clock, and
// never comes back: a proof that arrives after the end changes nothing.
//
// That clock stands still while the host is suspended. So the session also looks for how long that was, and its deadline
// comes nearer by as much.
type session struct {
	driver.Session

	ttl  time.Duration // as granted when the session was opened
	life context.Context
	end  context.CancelCauseFunc

	suspended func() time.Duration // for how long the host has been, ever
	earlier   *earlier             // of the Store
	outlasts  atomic.Bool          // the service has confirmed Outlast

	mu       sync.Mutex
	deadline time.Time     // Invariant: it moves back only by as much as the host was suspended.
	from     time.Time     // when the last renewal was sent that the driver has proved
	kept     time.Time     // until when the service may keep the session by that: a TTL after its answer, or after the first look that saw it
	over     bool          // the deadline has passed, or the session was lost otherwise: what is answered from then on changes nothing
	slept    time.Duration // what suspended returned when its growth was last accounted for
	woke     time.Time     // when that was noticed: requests that were sent earlier prove nothing
	looked   time.Time     // when suspended was last called
	timer    *time.Timer
	held     map[*grant]bool              // grants that are held, and whether their entry is watched; nil until there was one
	parting  []*waiting                   // those in waiters when the session was lost
	losing   []*grant                     // those in held when the session was lost
	waiters  map[*waiting]bool            // calls that wait in it
	attended bool                         // a goroutine looks at them
	suspects map[string]string            // the queues of entries that a late attempt may create once more, by ID
	doubt    chan struct{}                // has a value when suspects has grown; nil until it is not empty
	tenures  map[*tenure]bool             // whose end a Trace is to be told; nil until there was one
	made     map[string]uint64            // the notes of entries that may stand for a place, by the ID that NewID gave; nil where the service never goes back
	notes    uint64                       // how many there were
	undone   map[string]bool              // the IDs of entries that stood for no place; nil until there was one
	removals map[string]*removals         // of entries that were given up, once an attempt has failed, by queue; nil until there was one
	movable  map[string]map[*waiting]bool // those of the waiters that are Replaceable, by queue; nil until there was one
	walks    uint64                       // along the calls of removals, by number
	said     map[said]bool                // entries with which words were left that are to be taken back; nil until there was one
	looks    int                          // that are still to be made for entries that stand again
}

const (
	// leastSuspend is more than the noise of reading two clocks, and less than any margin.
	leastSuspend = 10 * time.Millisecond
	// lookAgain is how old the last look at the clock of suspends may be for the Store's own decisions. A holder that asks
	// gets a new one.
	lookAgain = time.Millisecond
	// lookUnasked is how often a session looks at least, for a suspend delays its timer.
	lookUnasked = time.Second
)

// newSession returns a session that ends with the life of its Store, or when no renewal is proved in time. Slept is what
// suspended returned before the session was asked for.
func newSession(
	life context.Context, opened driver.Session, suspended func() time.Duration, slept time.Duration,
) *session {
	ttl, _ := opened.Granted()
	in := &session{
		Session: opened, ttl: ttl, suspects: map[string]string{}, waiters: map[*waiting]bool{}, suspended: suspended, slept: slept,
	}
	in.life, in.end = context.WithCancelCause(life)
	// Under mu, for if the deadline has passed the timer's goroutine is there before this one.
	in.mu.Lock()
	defer in.mu.Unlock()
	in.advance()
	in.timer = time.AfterFunc(in.untilLook(), in.expire)
	return in
}

// margin is how long before the service may end a session its deadline lies: the time its holders have to stop in.
func margin(ttl time.Duration) time.Duration {
	return max(ttl/20, 100*time.Millisecond)
}

// provedUntil is until when a session lasts here whose last proved renewal was sent at from.
func provedUntil(ttl time.Duration, from time.Time) time.Time { return from.Add(ttl - margin(ttl)) }

// account moves the deadline by as much as the host has been suspended since the last look. The caller holds mu.
func (in *session) account(now time.Time) {
	in.looked = now
	if slept := in.suspended(); slept-in.slept >= leastSuspend {
		in.deadline, in.kept = in.deadline.Add(in.slept-slept), in.kept.Add(in.slept-slept)
		in.slept, in.woke = slept, now
	}
}

// advance moves the deadline to what the driver has proved by now. The caller holds mu.
func (in *session) advance() {
	now := time.Now()
	in.account(now)
	if in.over {
		return
	}
	ttl, from := in.Granted()
	if from.After(in.from) {
		in.from, in.kept = from, now.Add(ttl)
	}
	if proved := provedUntil(ttl, from); proved.After(in.deadline) && from.After(in.woke) {
		in.deadline = proved
	}
}

// lives reports whether the deadline lies ahead, after a look at what the driver has proved. The last look at the clock of
// suspends may be as old as age. If it does not, the caller calls fail.
func (in *session) lives(age time.Duration) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	if now.Sub(in.looked) >= age {
		in.account(now)
	}
	if !now.Before(in.deadline) {
		in.advance()
		in.over = in.over || !now.Before(in.deadline)
	}
	return !in.over
}

// untilLook returns when the timer is to run next. The caller holds mu.
func (in *session) untilLook() time.Duration { return min(time.Until(in.deadline), lookUnasked) }

// expire runs on the timer.
func (in *session) expire() {
	if !in.lives(0) {
		in.fail(errDeadline)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.life.Err() == nil {
		in.timer.Reset(in.untilLook())
	}
}

// fail ends the session as lost, unless it has ended. Its cause wraps ErrLost and why.
func (in *session) fail(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.timer.Stop()
	in.over = true
	if in.life.Err() == nil && in.losing == nil {
		in.losing = slices.Collect(maps.Keys(in.held))
		in.parting = slices.Collect(maps.Keys(in.waiters))
	}
	// Under mu, for whoever finds the session over calls fail as well, and the first cause stays.
	in.end(fmt.Errorf("%w: %w", ErrLost, why))
}

// err is nil while the session is alive. It looks at the clock, for the timer's goroutine may be late: after the process
// was stopped, a caller may run before it.
func (in *session) err() error { return in.errAt(lookAgain) }

// errNow is err for a holder.
func (in *session) errNow() error { return in.errAt(0) }

func (in *session) errAt(age time.Duration) error {
	if in.life.Err() == nil && !in.lives(age) {
		in.fail(errDeadline)
	}
	return context.Cause(in.life)
}

// gone is the error of a call about an entry whose session is over; nil while it is alive.
func (in *session) gone() error {
	over := in.err()
	if over == nil || errors.Is(over, ErrClosed) {
		return over
	}
	return fmt.Errorf("%w: %w", driver.ErrGone, over)
}

// until is when the session ends unless it is renewed before.
func (in *session) until() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.advance()
	return in.deadline
}

// within returns a context that ends with ctx, with the session, and after limit at the latest.
func (in *session) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	bound, end := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(in.life, end)
	if in.life.Err() != nil {
		end() // the goroutine of AfterFunc may come late
	}
	return bound, func() { stop(); end() }
}

// pauseIn waits for d. It returns an error as soon as ctx or life ends.
func pauseIn(ctx, life context.Context, d time.Duration) error {
	bound, cancel := bind(ctx, life)
	defer cancel()
	return pause.For(bound, d)
}

// bind returns a context that ends with ctx or with life, and then has its cause.
func bind(ctx, life context.Context) (context.Context, context.CancelFunc) {
	bound, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { end(context.Cause(life)) })
	if life.Err() != nil {
		end(context.Cause(life)) // as above
	}
	return bound, func() { stop(); end(nil) }
}

// suspect notes that a late attempt may create an entry with an ID that begins with e's, and reports whether it is the
// first.
func (in *session) suspect(e driver.Entry) (first bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.suspects[e.ID] = e.Queue
	if in.doubt == nil {
		in.doubt, first = make(chan struct{}, 1), true
	}
	select {
	case in.doubt <- struct{}{}:
	default:
	}
	return first
}

// suspected returns the queues of all suspects.
func (in *session) suspected() (queues []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	seen := map[string]bool{}
	for _, queue := range in.suspects {
		if !seen[queue] {
			seen[queue] = true
			queues = append(queues, queue)
		}
	}
	return queues
}

// isSuspect reports whether a late attempt has created e.
func (in *session) isSuspect(e driver.Entry) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, suspect := byID(in.suspects, e)
	return suspect
}

// byID returns what ids has for e, by an ID with which the ID of e begins: the ID that was asked for, where the service has added to it, or an
// entry has replaced another. There may be as many IDs as entries, so it is not they that are tried one by one.
func byID[T any](ids map[string]T, e driver.Entry) (known T, ok bool) {
	for n := len(e.ID); n > 0 && !ok && len(ids) > 0; n-- {
		known, ok = ids[e.ID[:n]]
	}
	return known, ok
}
