package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
)

const (
	// A request that may be sent again is, after a random part of a time that doubles from retryFirst to retryMost.
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
	// firstAttempt bounds the wait for the first answer, where a sixth of the TTL is longer. Each attempt that is not
	// answered in time doubles the bound, up to a third of the TTL: a connection whose other end is silent costs a second, not the
	// TTL, and a slow service is given time in the end.
	firstAttempt = time.Second
)

// A fate is what is known of a request after all its attempts.
type fate uint8

const (
	// unknown means that the request was carried out or not, or may be carried out later. It is the zero value, so that no
	// path forgets it.
	unknown fate = iota
	// done means that it was carried out and answered.
	done
	// not means that it was not carried out and will not be.
	not
)

// A verdict is how a request ended.
type verdict struct {
	fate fate
	// err is nil if fate is done. Otherwise it is what the service said, or the last trouble on the way, if a request was sent.
	err error
	// again is true if an attempt before the last may have been carried out, or may be carried out later.
	again bool
	// silent is true if, when ctx ended, the service had not answered for as long as an answer may take.
	silent bool
}

// failed adds an attempt that failed with that outcome, and reports whether another may follow. If none may, the fate is the fate
// of the request.
//
// This is the one place that decides what an outcome means for the request as a whole. A refusal speaks for its own
// attempt alone: after an attempt of unknown outcome it proves nothing about that one, so the fate is unknown. The same
// goes for the end of the session: what was carried out before has gone with it, and the caller looks at the session.
func (v *verdict) failed(o driver.Outcome) (more bool) {
	if o != driver.Refused && o != driver.NotDone {
		v.again = true
	}
	if v.fate = not; v.again {
		v.fate = unknown
	}
	return o != driver.Refused
}

// errAgain ends an attempt that was not carried out because things have changed. The next attempt may be.
var errAgain = errors.New("it has changed meanwhile")

// try sends a request, attempt by attempt, until it is answered, refused, or ctx or the session ends.
func (s *Store) try(ctx context.Context, in *session, send func(ctx context.Context, attempt int) error) verdict {
	var v verdict
	p := in.patience()
	for n, delay := 0, retryFirst; ; n, delay = n+1, min(2*delay, retryMost) {
		attempt, cancel := in.within(ctx, p.limit)
		sent := time.Now()
		err := send(attempt, n)
		unanswered := attempt.Err() != nil
		cancel()
		if err == nil {
			p.answered(ctx)
			return verdict{fate: done, again: v.again}
		}
		if !v.failed(s.outcome(in, err)) {
			p.answered(ctx) // a refusal is an answer
			v.err = err
			return v
		}
		over := ctx.Err() != nil || in.life.Err() != nil
		again := errors.Is(err, errAgain)
		if !over && unanswered {
			err = fmt.Errorf("%w within %v", errNoAnswer, p.limit)
			p.grow()
		}
		if v.err == nil || !over {
			v.err = err
		}
		if again {
			p.answered(ctx)
		} else {
			p.unanswered(ctx, sent, v.err)
		}
		if over || pauseIn(ctx, in.life, delay/2+rand.N(delay/2)) != nil {
			v.silent = p.exhausted()
			return v
		}
	}
}

// A patience is how long a request waits for an answer.
type patience struct {
	limit time.Duration // for the next attempt. Invariant: limit ≤ most
	most  time.Duration
	since time.Time // when the first attempt without an answer was sent; zero after one with an answer
	why   error     // how the last attempt without an answer has failed
}

// patience returns the patience of a request in the session. The first limit leaves a Release, which takes a third of the TTL at
// most, two attempts.
func (in *session) patience() patience {
	most := in.ttl / 3
	return patience{limit: min(most/2, firstAttempt), most: most}
}

// unanswered notes that an attempt was not answered, but failed: why is what is known of that. A connection that breaks is no answer.
func (p *patience) unanswered(ctx context.Context, sent time.Time, why error) {
	if p.since.IsZero() {
		p.since = sent
	}
	// That the time of a caller has ended says nothing of the service to the callers behind it.
	if p.why = why; errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		p.why = errNoAnswer
	}
	if gr := grantOf(ctx); gr != nil {
		seen := *p
		if before := gr.unanswered.Load(); before != nil && before.since.Before(seen.since) {
			seen.since = before.since // of the caller who has left the line to gr
		}
		gr.unanswered.Store(&seen)
	}
}

// answered notes that an attempt was answered. A grant may know of requests without an answer that were not of this patience.
func (p *patience) answered(ctx context.Context) {
	p.since, p.why = time.Time{}, nil
	if gr := grantOf(ctx); gr != nil {
		gr.unanswered.Store(nil)
	}
}

// grow gives the next attempt more time: the service may be slow.
func (p *patience) grow() { p.limit = min(2*p.limit, p.most) }

// exhausted reports whether there has been no answer for as long as one may take.
func (p *patience) exhausted() bool {
	return !p.since.IsZero() && time.Since(p.since) >= min(p.most, firstAttempt)
}

// outcome returns the outcome that the driver tells. An error that ends the session, or the Store, does so here.
func (s *Store) outcome(in *session, err error) driver.Outcome {
	switch {
	case errors.Is(err, errAgain):
		return driver.NotDone
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrConflict), errors.Is(err, driver.ErrKind),
		errors.Is(err, errors.ErrUnsupported):
		return driver.Refused // an answer, and a definite one
	}
	outcome := s.service.Outcome(err)
	if outcome == driver.Closed && in.err() != nil {
		outcome = driver.Expired // the driver may have closed a client of its own with the session
	}
	switch outcome {
	case driver.Expired:
		in.fail(fmt.Errorf("%w: %w", errExpired, err))
	case driver.Closed:
		s.stopWith(in, err)
	}
	return outcome
}

// failure is the error of a call that ended with v: ErrClosed if the Store was closed, the error of a ctx that has ended if the
// caller's ctx has ended, and otherwise what the service said.
func (s *Store) failure(ctx context.Context, v verdict) error {
	switch {
	case s.life.Err() != nil:
		return context.Cause(s.life)
	case ctx.Err() != nil:
		state, quiet := s.State(), s.silence()
		if quiet != nil && state.answers() && !v.silent {
			return gaveUp(ctx, quiet, true) // whatever is ahead in the queue, that is what the call has waited for
		}
		return gaveUp(ctx, v.err, v.silent || !state.answers())
	default:
		return v.err
	}
}

// inSession calls f in a session that is alive, and again in the next if the session ends before f has succeeded. Whatever f
// leaves at the service must end with the session.
func (s *Store) inSession(ctx context.Context, f func(in *session) verdict) error {
	for {
		in, err := s.session(ctx)
		if err != nil {
			return err
		}
		switch v := f(in); {
		case v.fate == done:
			return nil
		case ctx.Err() != nil || s.life.Err() != nil || in.err() == nil:
			return s.failure(ctx, v)
		}
	}
}
