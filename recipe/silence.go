package recipe

import (
	"errors"
	"fmt"
	"time"
)

// A Silence is the error of a call while the service grants nothing to anybody: so that all who held before a restart
// can stop. Nothing is held then as far as the service knows, so the error says nothing of a lock. It wraps
// ErrUnavailable.
type Silence struct { //nolint:errname // it is shown as a fact, too, where nothing has failed
	// Until is when the service grants again.
	Until time.Time
	// Why is what has happened to the service, for people.
	Why string

	left time.Duration // when the error was made
}

// Error says for how long nothing is granted, and why.
func (e *Silence) Error() string {
	return fmt.Sprintf("nothing is granted for %v more: %s", max(e.left.Round(silenceUnit), silenceUnit), e.Why)
}

// silenceUnit is how exactly people are told when a silence ends.
const silenceUnit = 100 * time.Millisecond

// Unwrap returns ErrUnavailable. Its text is left out: the service does answer.
func (e *Silence) Unwrap() error { return ErrUnavailable }

// SilenceOf returns why the service of a Store grants nothing at the moment, as its last answer has shown, or nil.
func SilenceOf(s *Store) *Silence { return s.silence() }

func (s *Store) silence() *Silence {
	in := s.inUse()
	if in == nil {
		return nil
	}
	return in.silence()
}

// silence returns the silence of the service in which the session is.
func (in *session) silence() *Silence {
	until, why := in.Session.Silence()
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	return &Silence{Until: until, Why: why, left: left}
}

// taken is the error of a call that was to wait for nobody, and has found others in its way, of whom locked tells. While
// the service grants nothing, they only wait.
func (in *session) taken(locked error) error {
	if quiet := in.silence(); quiet != nil {
		return quiet
	}
	if stuck, ok := errors.AsType[*stuckError](locked); ok {
		return stuck.asError()
	}
	if taken, ok := errors.AsType[*lockedError](locked); ok {
		taken.left = in.ofEarlier(taken.by)
	}
	return locked
}

// spurned is the error of a call that has other services to go to.
func (in *session) spurned() error {
	if quiet := in.silence(); quiet != nil {
		return quiet
	}
	return &Silence{Why: "that is about to end"}
}

// state is how a Store stands whose session was just opened or renewed.
func (in *session) state() State {
	if in.silence() != nil {
		return Recovering
	}
	return Connected
}

// untilRenewal is the time from the answer to a renewal that was sent as long ago as age, or from when the session was
// opened, to the next renewal. If age is longer than that time, the session has less left than otherwise: two answers
// that take 0.36 of the TTL, and a quarter between them, would be the end of it. A service that is slow is asked no
// more often for that than a service that answers at once. The end of a silence is seen at once.
func (in *session) untilRenewal(age time.Duration) time.Duration {
	every := in.ttl / 4
	if age >= every {
		every = retryRenewal(in.ttl)
	}
	if quiet := in.silence(); quiet != nil {
		return min(every, quiet.left)
	}
	return every
}

// noteSilence says that nothing is granted, once a silence, and that this is over.
func (s *Store) noteSilence(in *session) {
	quiet := in.silence()
	switch {
	case quiet == nil && !s.hushed.IsZero():
		s.hushed = time.Time{}
		s.log.Info("the service grants again")
	case quiet != nil && time.Now().After(s.hushed):
		s.log.Warn("nothing is granted for a while", "left", quiet.left.Round(time.Millisecond), "cause", quiet.Why)
	}
	if quiet != nil {
		s.hushed = quiet.Until
	}
}
