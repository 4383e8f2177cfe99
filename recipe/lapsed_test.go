//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A server hangs for about a TTL and goes on. It has renewals in its socket of a session that its client has lost, and keeps the session for
// another TTL by them, though nobody holds anything in it. Whoever comes next waits until the time is over for which the server was last known
// to keep the session, and no longer; nor any shorter. The holder knows of its loss whenever the server is asked to end the session.
func TestNobodyWaitsForALapsedSession(t *testing.T) {
	const near = recipe.ReopenMost                                                // when the service goes on, the Store may be between two attempts to open its next session
	for _, since := range []time.Duration{0, ttl / 8, ttl/4 - time.Millisecond} { // the last renewal
		atOnce := ttl*95/100 - since // the service goes on just when the session is lost, and answers the next renewal
		for _, hangs := range []time.Duration{ttl * 8 / 10, ttl * 9 / 10, atOnce, ttl * 97 / 100, ttl, ttl * 12 / 10, 3 * ttl} {
			t.Run(fmt.Sprintf("%v after a renewal for %v", since, hangs), func(t *testing.T) {
				inBubble(t, func(w *world) {
					holder := w.open()
					held := w.granted(w.start(holder))
					var renewed, ended atomic.Pointer[time.Time]
					w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
						switch now := time.Now(); op.Kind {
						case farsynctest.Renew:
							renewed.Store(&now)
						case farsynctest.EndSession:
							ended.CompareAndSwap(nil, &now)
							assert.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
						}
						return farsynctest.None
					})
					time.Sleep(ttl/4 + ttl/4) // the second is being answered
					w.settle()
					kept := renewed.Load().Add(ttl)
					time.Sleep(since)
					w.Freeze()
					time.Sleep(hangs)
					w.Resume()
					w.settle()
					if held.hold.Err() == nil { // the last renewal was late enough
						w.release(held)
						return
					}
					resumed := time.Now()
					next := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, w.open(), &exclusive) })
					w.finally(next)
					from := resumed
					if kept.After(from) {
						from = kept
					}
					t.Logf("the next has waited for %v, %v after it might have", next.at.Sub(resumed), next.at.Sub(from))
					require.False(w, next.at.Before(kept), "the holder may have needed the time until %v", kept)
					require.Less(w, next.at.Sub(from), near)
					require.NotNil(w, ended.Load())
					require.False(w, ended.Load().Before(kept))
					w.release(next)
				})
			})
		}
	}
}

// lose has a client lose a session in which an entry stands, which the service goes on to keep, and returns once the client has another.
func (w *world) lose(s *recipe.Store) {
	w.Helper()
	w.granted(w.start(s))
	w.loseSession(s)
}

// A Store that has its next session early asks at the very moment: a TTL after the answer to the last renewal that was answered, which is a margin after
// the deadline of what was held, if the answer took no time, and later by what it took. Nothing is asked before, and it is asked once.
func TestALapsedSessionIsEndedAtItsTime(t *testing.T) {
	for _, takes := range []time.Duration{0, 200 * time.Millisecond} { // a message each way
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.open()
				held := w.granted(w.start(s))
				w.SetLatency(takes)
				time.Sleep(ttl)
				w.settle()
				sent := held.hold.Deadline().Add(ttl/20 - ttl)
				var ended []time.Time
				var lost []error
				w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Kind == farsynctest.EndSession {
						lost = append(lost, held.hold.Err())
						ended = append(ended, time.Now()) // one at a time
					}
					return farsynctest.None
				})
				time.Sleep(time.Until(sent.Add(2*takes + time.Millisecond))) // it is answered by then
				w.Partition(s, true)
				<-held.hold.Life().Done()
				require.Equal(w, sent.Add(ttl-ttl/20), time.Now())
				w.Partition(s, false)
				time.Sleep(2 * ttl)
				w.settle()
				require.Equal(w, []time.Time{sent.Add(ttl + 2*takes)}, ended)
				require.ErrorIs(w, lost[0], recipe.ErrLost)
			})
		})
	}
}

// A service that goes back to an earlier state while it keeps a session that its client has lost may have entries in it that were removed. They end
// with that session.
func TestALapsedSessionEndsWithWhatStandsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.granted(w.start(s))
		was := w.shown(s, queue)
		w.release(first)
		time.Sleep(ttl / 5) // the next renewal is soon
		w.Freeze()
		for s.State() != recipe.Lost {
			time.Sleep(time.Millisecond)
		}
		w.Resume() // with that renewal
		w.Revive(was)
		time.Sleep(recipe.ReopenMost)
		require.Equal(w, recipe.Connected, s.State())
		require.Empty(w, w.Entries(queue))
		w.release(w.granted(w.start(s)))
	})
}

// Whatever becomes of a request to end a session, another follows, up to a few.
func TestALapsedSessionIsEndedWhateverIsLost(t *testing.T) {
	for name, row := range map[string]struct {
		fault farsynctest.Fault
		asked int
	}{
		"answered":    {farsynctest.None, 1},
		"lost":        {farsynctest.LoseRequest, 2},
		"answer lost": {farsynctest.LoseReply, 2},
		"late":        {farsynctest.Late(3), 2},
		"silence":     {farsynctest.Silence(false), 2},
		"not done":    {farsynctest.Fail(driver.NotDone, errors.New("busy")), 2},
		"over":        {farsynctest.Fail(driver.Expired, errors.New("over")), 1},
		"refused":     {farsynctest.Refuse(errRefused), 1},
		"unsupported": {farsynctest.Refuse(errors.ErrUnsupported), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := w.open()
				var asked atomic.Int64
				w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Kind == farsynctest.EndSession && asked.Add(1) == 1 {
						return row.fault
					}
					return farsynctest.None
				})
				w.lose(s)
				time.Sleep(2 * ttl)
				require.EqualValues(w, row.asked, asked.Load())
				require.Empty(w, w.Entries(queue))
			})
		})
	}
}

// A service that answers all else, and never this, is asked a few times and no more.
func TestALapsedSessionIsLeftInTheEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		var asked atomic.Int64
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.EndSession {
				asked.Add(1)
				return farsynctest.LoseRequest
			}
			return farsynctest.None
		})
		w.lose(s)
		time.Sleep(10 * ttl)
		require.EqualValues(w, recipe.LapsedTries, asked.Load())
		require.Zero(w, s.Lapsed())
		w.release(w.granted(w.start(s)))
	})
}

// A Store that loses one session after the other remembers the last of them, and ends them one at a time.
func TestLapsedSessionsAreBounded(t *testing.T) {
	inBubble(t, func(w *world) {
		service := &silentEnds{Service: w.Service("lapsing")}
		s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		for range 3 * recipe.MostLapsed {
			w.ExpireClient("lapsing")
			time.Sleep(ttl / 3)
			w.granted(w.start(s)).hold.Abandon()
			require.LessOrEqual(w, s.Lapsed(), recipe.MostLapsed)
		}
		require.Equal(w, recipe.MostLapsed, s.Lapsed())
		require.Positive(w, service.asked.Load())
		service.answers.Store(true)
		time.Sleep(3 * ttl)
		require.Zero(w, s.Lapsed())
		require.EqualValues(w, 1, service.most.Load(), "at once")
		require.NoError(w, s.Close())
	})
}

// silentEnds is a driver whose service does not answer to the end of a session until it does.
type silentEnds struct {
	driver.Service
	answers            atomic.Bool
	asked, under, most atomic.Int64
}

func (s *silentEnds) End(ctx context.Context, session string) error {
	s.asked.Add(1)
	s.most.Store(max(s.most.Load(), s.under.Add(1)))
	defer s.under.Add(-1)
	if !s.answers.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Service.End(ctx, session)
}

// Close waits neither for the time of a lapsed session nor for a service that does not answer to its end, and leaves nothing running.
func TestCloseWaitsForNoLapsedSession(t *testing.T) {
	for name, after := range map[string]time.Duration{"before its time": 0, "while it is being ended": ttl} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				service := &silentEnds{Service: w.Service("closing")}
				s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl})
				require.NoError(w, err)
				defer s.Close()
				w.Freeze()
				for s.State() != recipe.Lost {
					time.Sleep(time.Millisecond)
				}
				w.Resume()
				time.Sleep(after)
				w.settle()
				require.Equal(w, after > 0, service.under.Load() > 0)
				began := time.Now()
				require.NoError(w, s.Close())
				require.Equal(w, began, time.Now())
			})
		})
	}
}

// A driver that cannot end a session by a name is not asked to.
func TestASessionWithoutANameIsNotEnded(t *testing.T) {
	inBubble(t, func(w *world) {
		r := &farsynctest.Record{}
		s, err := recipe.Open(w.Context(), r.Wrap(unnamed{w.Service("unnamed")}, "unnamed"), recipe.Options{TTL: ttl})
		require.NoError(w, err)
		w.granted(w.start(s))
		w.ExpireClient("unnamed")
		time.Sleep(2 * ttl)
		require.Equal(w, 2, r.Count(farsynctest.OpenSession))
		require.Zero(w, r.Count(farsynctest.EndSession))
		require.NoError(w, s.Close())
	})
}

type unnamed struct{ driver.Service }

func (s unnamed) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := s.Service.Open(ctx, ttl)
	return unnamedSession{in}, err
}

type unnamedSession struct{ driver.Session }

func (unnamedSession) Name() string { return "" }
