package model

import (
	"errors"
	"time"
)

// A Lease is a play for the model of one session and its renewals, in time: until when its client believes in it, and
// when the service ends it. The model of the queue takes for granted what this one shows, that the first comes before
// the second.
//
// Time goes by in ticks of a second, for the client and the service at the same rate.
type Lease struct {
	// Deadline is the library's: until when a session of that TTL lasts whose last proved renewal was sent at from.
	Deadline func(ttl time.Duration, from time.Time) time.Time
	Ticks    uint8 // how long the play is
	Lost     uint8 // how many renewals or answers may be lost
	Mistake  LeaseMistake
}

// A LeaseMistake is one in how a deadline is counted.
type LeaseMistake uint8

// The mistakes.
const (
	_           LeaseMistake = iota
	FromReceipt              // a deadline counts from when the answer arrived
	AskedTTL                 // it counts with the TTL that was asked for, not with the shorter TTL that was granted
	UntilTold                // there is none: the session is over when the service says so
)

const (
	leaseTTL   = 4 // ticks
	askedTTL   = 6
	leaseBound = 2 // renewals under way
)

// LeaseState is the state of a session.
type LeaseState struct {
	now     uint8
	from    uint8 // the tick at which the last renewal that is proved was sent, or what a mistake takes for it
	until   uint8 // the tick at which the service ends the session
	ended   bool  // it has
	over    bool  // the client knows that it has, or found its deadline passed
	lost    uint8
	renewal [leaseBound]renewal
}

// A renewal is a request under way. Sent is one higher than the tick at which it was sent, so that 0 is none.
type renewal struct {
	sent uint8
	done bool
}

// Start returns a session whose opening was sent and answered at once.
func (l *Lease) Start() LeaseState { return LeaseState{until: leaseTTL, lost: l.Lost} }

var dawn = time.Unix(0, 0)

func at(tick uint8) time.Time { return dawn.Add(time.Duration(tick) * time.Second) }

// believes reports whether the client takes the session for alive, if it looks at the clock.
func (l *Lease) believes(s LeaseState) bool {
	now := at(s.now)
	switch {
	case s.over:
		return false
	case l.Mistake == UntilTold:
		return true
	case l.Mistake == AskedTTL:
		return now.Before(l.Deadline(askedTTL*time.Second, at(s.from)))
	default:
		return now.Before(l.Deadline(leaseTTL*time.Second, at(s.from)))
	}
}

// Steps yields all that may happen.
func (l *Lease) Steps(s LeaseState, yield func(Step[LeaseState])) {
	step := func(who, what string, due bool, change func(s *LeaseState)) {
		next := s
		change(&next)
		yield(Step[LeaseState]{Who: who, What: what, Next: next, Due: due})
	}
	if s.now < l.Ticks {
		step("time", "goes on by a second", true, func(s *LeaseState) {
			if s.now++; !l.believes(*s) {
				s.over = true // an exact timer, and each caller that asks looks at the clock
			}
		})
	}
	if !s.ended && s.now >= s.until {
		step(service, "ends the session", false, func(s *LeaseState) { s.ended = true })
	}
	for i, r := range s.renewal {
		switch {
		case r.sent == 0:
			if !s.over && (i == 0 || s.renewal[i-1].sent != 0) {
				step("A", "sends a renewal", false, func(s *LeaseState) { s.renewal[i].sent = s.now + 1 })
			}
			continue
		case !r.done && s.ended:
			step(service, "says that the session is over", false, func(s *LeaseState) { s.over, s.renewal[i] = true, renewal{} })
		case !r.done:
			step(service, "renews the session", false, func(s *LeaseState) {
				s.renewal[i].done = true
				s.until = max(s.until, s.now+leaseTTL)
			})
		default:
			step("A", "hears that the session was renewed", false, func(s *LeaseState) {
				s.renewal[i] = renewal{}
				l.renewed(s, r)
			})
		}
		if s.lost > 0 {
			step("A", "gets no answer to a renewal", false, func(s *LeaseState) {
				s.lost--
				s.renewal[i] = renewal{}
			})
		}
	}
}

// renewed is what a client makes of an answer.
func (l *Lease) renewed(s *LeaseState, r renewal) {
	from := r.sent - 1
	if l.Mistake == FromReceipt {
		from = s.now
	}
	if !s.over {
		s.from = max(s.from, from)
	}
}

// Check requires that the client believes in nothing that the service has ended.
func (l *Lease) Check(s LeaseState) error {
	if s.ended && l.believes(s) {
		return errors.New("the service has given the lock away, and its holder believes that it holds")
	}
	return nil
}

// Rest requires nothing: time goes on until the end of the play.
func (l *Lease) Rest(LeaseState) error { return nil }
