package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// recheckAfter is the least time after which a waiter looks at its queue again although it was not woken. It turns
	// a lost event, of which no case is known, from a hang into a delay.
	recheckAfter = 30 * time.Second
	// A waiter whose session was lost joins again after a random part of a time that doubles from rejoinFirst to
	// rejoinMost, so that the clients of a service that comes back do not all arrive at once.
	rejoinFirst = 20 * time.Millisecond
	rejoinMost  = 2 * time.Second
)

// Acquire is the one waiting loop: it joins the queue, waits until the rule finds nothing ahead that blocks, and
// returns the entry, which exists and belongs to a live session. If the entry or its session goes away meanwhile, it
// joins again at the tail.
//
// On error nothing is held, and the removal of what was joined has begun.
func Acquire(ctx context.Context, s Store, r Request) (Entry, error) {
	delay := rejoinFirst
	for {
		e, blockers, err := s.Join(ctx, r)
		if err == nil {
			if err = waitTurn(ctx, s, e, r.Rule, blockers); err == nil {
				return e, nil
			}
			begin(s, e)
		}
		if !errors.Is(err, ErrGone) {
			return Entry{}, err
		}
		if Pause(ctx, rand.N(delay)) != nil {
			return Entry{}, GaveUp(ctx, err)
		}
		delay = min(2*delay, rejoinMost)
	}
}

// TryAcquire is Acquire for those who do not wait: ErrLocked if anything would block. A queue that is seen to be
// busy costs one read and no write.
func TryAcquire(ctx context.Context, s Store, r Request) (Entry, error) {
	for {
		blockers, err := s.Peek(ctx, r)
		if err != nil {
			return Entry{}, err
		}
		if len(blockers) > 0 {
			return Entry{}, ErrLocked
		}
		e, blockers, err := s.Join(ctx, r)
		if err != nil {
			return Entry{}, err
		}
		if len(blockers) > 0 {
			// Somebody joined between the look and the join. We have been in the queue for a moment, so those who joined
			// behind us wait for this removal: see it through while ctx lives.
			if err := s.Leave(ctx, e); err != nil && !errors.Is(err, ErrGone) && ctx.Err() == nil {
				return Entry{}, err
			}
			return Entry{}, ErrLocked
		}
		if e.Session.Err() == nil {
			return e, nil
		}
		// The session ended while it was told of the entry. Nothing was held: look again.
		begin(s, e)
	}
}

// waitTurn returns nil when nothing blocks e any more. ErrGone: e or its session went away.
//
// No wake-up is missed. Wait ends when any of the blockers is gone, also if that was before the call; while all of
// them live unchanged, the rule would name the same ones, so e may not run. What happened is then not taken from the
// event, which tells that an entry is gone but not whether it was the holder: Blockers looks at the queue again, and
// proves at the same time that e still exists.
func waitTurn(ctx context.Context, s Store, e Entry, rule Rule, blockers []Entry) error {
	// A server that has ended our session may be out of reach, and the blockers be there for ever: the session's own
	// end must wake us.
	bound, cancel := e.Session.Bind(ctx)
	defer cancel()
	var err error
	for err == nil && len(blockers) > 0 {
		if err = waitOrRecheck(bound, s, blockers); err != nil {
			break
		}
		blockers, err = s.Blockers(bound, e, rule)
	}
	switch over := e.Session.Err(); {
	case ctx.Err() != nil:
		if len(blockers) > 0 {
			err = fmt.Errorf("waiting behind %s", describe(blockers[0]))
		}
		return GaveUp(ctx, err)
	case errors.Is(over, ErrClosed):
		return ErrClosed
	case over != nil:
		// Also when Blockers has just answered that nothing blocks: the answer may be older than the session's end.
		return fmt.Errorf("%w: %w", ErrGone, over)
	default:
		return err
	}
}

// waitOrRecheck is Wait, cut short now and then by a random amount so that the waiters of a queue do not all look
// at the same time.
func waitOrRecheck(ctx context.Context, s Store, blockers []Entry) error {
	ctx2, cancel := context.WithTimeout(ctx, recheckAfter+rand.N(recheckAfter/2))
	defer cancel()
	err := s.Wait(ctx2, blockers...)
	if err != nil && ctx2.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// describe names an entry for people.
func describe(e Entry) string {
	if len(e.Value) == 0 {
		return fmt.Sprintf("%q", e.ID)
	}
	return fmt.Sprintf("%q of %q", e.ID, e.Value)
}

// begin starts the removal of an entry that will not be used, and does not wait for it.
func begin(s Store, e Entry) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	// The answer is known: ctx has ended, and the Store goes on behind.
	_ = s.Leave(ended, e)
}
