package recipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// After a lost session the next is opened after a random part of a time that doubles from reopenFirst to reopenMost.
	reopenFirst = 50 * time.Millisecond
	reopenMost  = 2 * time.Second
)

// keep renews the session, and replaces it when it is lost, until the Store is closed. It runs in one goroutine, which
// Close joins.
func (s *Store) keep(in *session) {
	for {
		s.log.Info("session open", "ttl", in.ttl, "holder", s.options.Holder)
		s.noteSilence(in)
		s.traceSession(Health{State: in.state(), Opened: true, TTL: in.ttl, Left: time.Until(in.until())})
		s.renew(in)
		s.use(nil)
		for _, gr := range in.holding() { // a grant that comes later sees by itself that the session is over
			gr.lose()
		}
		closed := s.life.Err() != nil
		if !closed {
			s.announce(Lost)
			s.noteSession(in)
		}
		s.concludeAll(in, nil)
		s.traceSession(Health{State: Lost, TTL: in.ttl, Cause: in.err()})
		if closed {
			s.unended = s.revoke(in)
			return
		}
		// It must not be ended at the service before its time: its holders may need what is left of that to stop.
		s.endLater(in)
		s.leave(in)
		// In the background, for a client library may take long to close, and others wait for the next session.
		if !s.background(in.Drop) { // the method of this session: in is about to be another
			in.Drop()
		}
		if in = s.reopen(); in == nil {
			return
		}
	}
}

// renew renews the session every quarter of its TTL until it is over. A service that is slow has as long to answer.
// After a renewal without an answer the next are tried soon, over other connections, with less patience: what is left
// of the session is worth several attempts. After a renewal with a late answer the next is made soon, too, for the
// session counts from when the renewal was sent.
func (s *Store) renew(in *session) {
	every := in.ttl / 4
	limit := every
	r := &renewals{in: in}
	history := in.History()
	r.begin()
	defer r.end()
	for wait := in.untilRenewal(0); s.idle(in, wait); {
		s.noteDropped()
		age, err := s.renewOnce(r, limit)
		if err == nil {
			if was := s.State(); s.announce(in.state()) && was == Suspended {
				s.log.Info("session connected again")
			}
			s.noteSilence(in)
			history = s.compare(in, history)
			wait, limit = in.untilRenewal(age), every
			continue
		}
		s.outcome(in, err)
		if in.err() != nil {
			return
		}
		s.suspend(in, err)
		in.Reset()
		wait, limit = retryRenewal(in.ttl), min(every, firstAttempt)
	}
}

// retryRenewal is the time from a renewal without an answer, or with a late one, to the next.
func retryRenewal(ttl time.Duration) time.Duration { return min(ttl/20, time.Second) }

func (s *Store) suspend(in *session, why error) {
	if s.announce(Suspended) {
		left := time.Until(in.until())
		s.log.Warn("session suspended", "cause", why, "left", left)
		s.traceSession(Health{State: Suspended, TTL: in.ttl, Left: left, Cause: why})
	}
}

// idle waits until the next renewal is due, and reports whether the session is still alive.
func (s *Store) idle(in *session, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-in.life.Done():
	case <-in.Over():
		// Ask for the reason. If there is none, the session is of no use all the same.
		attempt, cancel := context.WithTimeout(in.life, firstAttempt)
		err := in.Renew(attempt, nil)
		cancel()
		if err != nil {
			s.outcome(in, err)
		}
		in.fail(errors.Join(errUnusable, err))
	}
	return in.err() == nil
}

// reopen tries until there is a session, and puts it to use. It is nil if the Store was closed.
func (s *Store) reopen() *session {
	for delay := reopenFirst; ; delay = min(2*delay, reopenMost) {
		if pause.For(s.life, rand.N(delay)) != nil {
			return nil
		}
		in, err := s.open(s.life, openMost)
		if err == nil {
			s.use(in)
			return in
		}
		s.mu.Lock()
		s.without = err
		s.mu.Unlock()
		if s.service.Outcome(err) == driver.Closed {
			s.stopWith(nil, err)
		}
		if s.life.Err() == nil {
			s.log.Warn("no new session yet", "cause", err)
		}
	}
}
