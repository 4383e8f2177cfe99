package recipe

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// mostRenewals is how many attempts to renew a session are left under way: more than most sessions have time for.
const mostRenewals = 8

// Renewals are the attempts to renew a session since one was answered. An attempt that is not answered in time is left under way while
// others are made, for its answer counts from when it was sent: a service that is slow, or slow to let a user in, must not
// lose a session that it keeps.
type renewals struct {
	in *session

	ctx     context.Context // of all attempts
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	made    int          // Invariant: made ≤ mostRenewals
	answers chan renewal // with room for all
}

// A renewal is the answer to an attempt, by its number.
type renewal struct {
	number int
	err    error
	sent   time.Time
	took   time.Duration
}

// begin gives up what is under way, and forgets it.
func (r *renewals) begin() {
	r.end()
	r.made, r.answers = 0, make(chan renewal, mostRenewals)
	r.ctx, r.cancel = context.WithCancel(r.in.life)
}

// end gives up what is under way.
func (r *renewals) end() {
	if r.cancel != nil {
		r.cancel()
		r.tasks.Wait()
	}
}

// send makes one more attempt.
func (r *renewals) send() {
	if r.made == mostRenewals {
		r.begin()
	}
	r.made++
	number, ctx, answers := r.made, r.ctx, r.answers
	r.tasks.Go(func() { // joined by end
		sent := time.Now()
		err := r.in.Renew(ctx, r.in.toProve())
		answers <- renewal{number, err, sent, time.Since(sent)}
	})
}

// age is how long ago a renewal was sent that is answered. It is zero where the session counts from an earlier one as a
// rule, as on ZooKeeper: then it says nothing about how much of the session is left.
func (r *renewals) age(answer renewal) time.Duration {
	if _, from := r.in.Granted(); from.Before(answer.sent) {
		return 0
	}
	return time.Since(answer.sent)
}

// renewOnce makes one attempt to renew the session, and returns when it is answered, or an attempt before it is, with
// the age of that renewal. While none is answered for longer than an answer may take, the Store is Suspended.
func (s *Store) renewOnce(r *renewals, limit time.Duration) (age time.Duration, _ error) {
	deadline := r.in.until()
	r.send()
	overdue, late := time.NewTimer(min(limit, firstAttempt)), time.NewTimer(limit)
	defer overdue.Stop()
	defer late.Stop()
	for {
		select {
		case answer := <-r.answers:
			if answer.err == nil {
				r.in.until() // until when the service may keep the session counts from here, not from a later look
				s.noteLate(r.in, deadline)
				s.traceSession(Health{
					State: r.in.state(), TTL: r.in.ttl, RoundTrip: answer.took, Left: time.Until(deadline),
				})
				r.begin()
			}
			if answer.err == nil || answer.number == r.made {
				return r.age(answer), answer.err
			}
		case <-overdue.C:
			s.suspend(r.in, errNoAnswer)
		case <-late.C:
			return 0, fmt.Errorf("%w within %v", errNoAnswer, limit)
		case <-r.in.life.Done():
			return 0, context.Cause(r.in.life)
		}
	}
}
