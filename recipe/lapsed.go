package recipe

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// mostLapsed is how many lapsed sessions a Store remembers. Of more, the oldest are left to run out by themselves: most of their
	// time is over.
	mostLapsed = 16
	// lapsedTries is how often a service that answers to the Store otherwise is asked to end a lapsed session.
	lapsedTries = 8
)

// A lapsed session was lost here, and the service may still keep it. A server that hangs has its renewals unread, and carries
// them out when it goes on: the session is renewed for another TTL, although its client has dropped it, and its entries keep others waiting
// although nobody holds or waits by them. So the Store ends it at the service, by its name.
//
// # Why nobody who holds loses anything by that
//
// A session's deadline and its kept move together, under one lock, and by the same renewals: the deadline to a TTL less the margin after the
// renewal was sent, kept to a TTL after its answer was seen. A suspend of the host takes as much from both. So kept lies behind the
// deadline by no less than the margin, at every moment, and whoever asks for a lease of that session is told that it is lost by then. It is also
// no sooner than the service could have ended the session without those renewals: the margin that a holder has to stop in is not shortened.
//
// An answer that comes once the session is over here moves neither, for it answers a renewal that lay unread. Without that the time at
// which the session may be ended would be put off by the very renewals against which it is ended.
//
// # What becomes of the request
//
//   - It is lost, or its answer is: the service is asked again, lapsedTries times, while the Store has a session. An End that is carried out twice
//     finds nothing the second time.
//   - It arrives late: no other session has the name, so it ends what it was to end, or nothing.
//   - Renewals and creates of the session arrive after it: driver.Service.End has that they leave nothing. The second of two attempts
//     ends what arrives between them.
//   - The service hangs anew, or cannot be reached: the Store has no session then, and goes on when it has another.
//   - The service goes back to an earlier state, in which the session stands: it is not renewed any more, and runs out within a TTL.
//   - The service refuses, or the Store is closed, or sixteen more sessions are lost before: the session runs out by itself, as all did
//     before there was an End.
type lapsed struct {
	name      string
	due       time.Time            // Invariant: it moves back only by as much as the host was suspended.
	suspended func() time.Duration // as in a session
	slept     time.Duration        // what it returned when its growth was last accounted for
}

// left is for how long the lapsed session may not be ended yet.
func (l *lapsed) left() time.Duration {
	if slept := l.suspended(); slept-l.slept >= leastSuspend {
		l.due, l.slept = l.due.Add(l.slept-slept), slept
	}
	return time.Until(l.due)
}

// lapsedOf returns a session that was lost as what is left of it.
func lapsedOf(in *session) *lapsed {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.account(time.Now())
	return &lapsed{name: in.Name(), due: in.kept, suspended: in.suspended, slept: in.slept}
}

// Lapses are the lapsed sessions of a Store, which one goroutine ends, one after the other.
type lapses struct {
	mu    sync.Mutex
	list  []*lapsed // the oldest first. Invariant: no more than mostLapsed
	under bool      // the goroutine runs. Invariant: true while the list is not empty, unless the Store is closed
}

// add adds a lapsed session, and reports whether a goroutine has to be started that ends it.
func (l *lapses) add(one *lapsed) (start bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == mostLapsed {
		l.list = slices.Delete(l.list, 0, 1)
	}
	l.list = append(l.list, one)
	start, l.under = !l.under, true
	return start
}

// next takes out the oldest, or returns nil, and then the goroutine ends.
func (l *lapses) next() *lapsed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under = len(l.list) > 0; !l.under {
		return nil
	}
	one := l.list[0]
	l.list = slices.Delete(l.list, 0, 1)
	return one
}

// endLater has a session ended at the service that was lost here, unless the driver cannot do so. Close does not wait for its time: what has
// not been ended by then runs out by itself.
func (s *Store) endLater(in *session) {
	if in.Name() != "" && s.lapses.add(lapsedOf(in)) {
		s.background(func() {
			for one := s.lapses.next(); one != nil && s.endLapsed(one); one = s.lapses.next() {
			}
		})
	}
}

// endLapsed ends a lapsed session when its time has come. It returns false once the Store is closed. The name may have the password of the
// session, so it is not logged.
func (s *Store) endLapsed(one *lapsed) bool {
	for left := one.left(); left > 0; left = one.left() {
		if pause.For(s.life, min(left, lookUnasked)) != nil {
			return false
		}
	}
	var err error
	for n, delay := 0, retryFirst; n < lapsedTries; n, delay = n+1, min(2*delay, reopenMost) {
		in, none := s.session(s.life) // a service that lets the Store have none does not answer, and need not be asked for more
		if none != nil {
			return false
		}
		ctx, cancel := in.within(s.life, in.patience().most)
		err = s.service.End(ctx, one.name)
		cancel()
		if err == nil {
			s.log.Info("a session that was lost was ended")
			return true
		}
		is := s.service.Outcome(err)
		if is == driver.Expired {
			return true
		}
		if is == driver.Refused || errors.Is(err, errors.ErrUnsupported) {
			break
		}
		if pause.For(s.life, delay/2+rand.N(delay/2)) != nil {
			return false
		}
	}
	s.log.Warn("a session that was lost could not be ended", "cause", err)
	return true
}
