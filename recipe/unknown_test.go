//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

var errRefused = errors.New("permission denied")

// plan returns a fault function that gives the requests of one kind by the first client the faults in turn, and none to
// those after them.
func plan(kind farsynctest.OpKind, faults ...farsynctest.Fault) func(farsynctest.Op) farsynctest.Fault {
	var n atomic.Int64
	return func(op farsynctest.Op) farsynctest.Fault {
		if op.Kind != kind || op.Client != "client-1" {
			return farsynctest.None
		}
		if i := int(n.Add(1)); i <= len(faults) {
			return faults[i-1]
		}
		return farsynctest.None
	}
}

// busy has s make requests, so that late ones come due.
func (w *world) busy(s *recipe.Store, requests int) {
	w.Helper()
	for range requests {
		_, _, err := recipe.Queue{Store: s, Path: "/elsewhere"}.List(w.Context(), 0)
		require.NoError(w, err)
	}
	w.settle()
}

// anchor holds another lock, which shows at the end that the session was not given up for what went wrong.
func (w *world) anchor(s *recipe.Store) {
	r := exclusive
	r.Queue = "/anchor"
	anchor := w.granted(w.startFor(s, r))
	w.Cleanup(func() { require.NoError(w, anchor.hold.Err()) })
}

// A create that is carried out late, after its entry was removed, makes an entry that belongs to no caller. The caller may
// have given up, or have locked with another attempt and unlocked.
func TestLateCreateIsRemoved(t *testing.T) {
	for _, late := range []int{1, 2, 3, 5, 10, 100} {
		for _, givesUp := range []bool{false, true} {
			t.Run(fmt.Sprint(late, givesUp), func(t *testing.T) {
				inBubble(t, func(w *world) {
					a, b := w.open(), w.open()
					w.anchor(a)
					w.SetFault(plan(farsynctest.Create, farsynctest.Late(late)))
					first := w.start(a)
					if givesUp {
						first.cancel()
						w.settle()
					} else if w.finally(first); first.hold.Err() == nil {
						w.release(first)
					}
					time.Sleep(time.Second)
					w.busy(a, late) // now it has come, if it had not before
					time.Sleep(ttl / 2)
					w.settle()
					require.Empty(w, w.Entries(queue))
					w.release(w.granted(w.start(b)))
				})
			})
		}
	}
}

// Even a minute after the removal was confirmed: no time is long enough for a request to be lost for good.
func TestVeryLateCreateIsRemoved(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.anchor(a)
		w.SetFault(plan(farsynctest.Create, farsynctest.Late(1000)))
		first := w.start(a)
		first.cancel()
		time.Sleep(time.Minute)
		require.Empty(w, w.Entries(queue))
		w.busy(a, 1000)
		require.Len(w, w.Entries(queue), 1, "it has come")
		w.release(w.finally(w.start(b)))
		require.Empty(w, w.Entries(queue))
	})
}

// A refusal speaks for its own attempt: the one before may have been carried out.
func TestRefusedAfterUnknownIsUnknown(t *testing.T) {
	for _, before := range []farsynctest.Fault{farsynctest.LoseReply, farsynctest.LoseRequest, farsynctest.Late(3)} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			w.anchor(a)
			w.SetFault(plan(farsynctest.Create, before, farsynctest.Refuse(errRefused)))
			first := w.start(a)
			<-first.done
			require.ErrorIs(w, first.err, errRefused)
			w.busy(a, 3)
			w.release(w.finally(w.start(b)))
			require.Empty(w, w.Entries(queue))
		})
	}
}

func (w *world) writer(s *recipe.Store) *recipe.Hold {
	w.Helper()
	write := recipe.Request{Queue: queue, Kind: driver.Write, Units: 1}
	return w.granted(w.startFor(s, write)).hold
}

// A downgrade whose answer was lost lets readers in, so its holder must not go on as a writer.
func TestDowngradeRefusedAfterALostReply(t *testing.T) {
	for _, blind := range []bool{false, true} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			writer := w.writer(a)
			reader := w.startFor(b, recipe.Request{Queue: queue, Kind: driver.Read, Units: 1})
			var lost atomic.Bool
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				switch {
				case op.Kind == farsynctest.Replace && !lost.Swap(true):
					return farsynctest.LoseReply
				case op.Kind == farsynctest.Replace, blind && op.Kind == farsynctest.Find:
					return farsynctest.Refuse(errRefused)
				default:
					return farsynctest.None
				}
			})
			err := writer.Change(w.Context(), driver.Read, nil)
			w.granted(reader)
			if blind {
				require.ErrorIs(w, err, recipe.ErrLost)
				require.ErrorIs(w, err, recipe.ErrUncertain)
				require.ErrorIs(w, err, errRefused)
				require.ErrorIs(w, writer.Err(), recipe.ErrLost)
				require.Error(w, writer.Release())
			} else {
				require.NoError(w, err, "a look shows that it was carried out")
				require.Equal(w, driver.Read, writer.Entries()[0].Kind)
				require.NoError(w, writer.Release())
			}
			w.SetFault(nil)
			w.release(reader)
			w.release(w.finally(w.start(b)))
		})
	}
}

// A refusal may pass, as a permission that is taken away and given back: removal goes on.
func TestRemovalOutlivesRefusals(t *testing.T) {
	for _, byRelease := range []bool{false, true} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			w.anchor(a)
			var allowed atomic.Bool
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Delete && !allowed.Load() {
					return farsynctest.Refuse(errRefused)
				}
				return farsynctest.None
			})
			var waiting *try
			if byRelease {
				first := w.granted(w.start(a))
				require.ErrorIs(w, first.hold.Release(), errRefused)
			} else {
				holder := w.AddForeign(queue, "other")
				waiting = w.start(a)
				waiting.cancel()
				w.settle()
				w.Delete(holder)
			}
			second := w.start(b)
			time.Sleep(500 * time.Millisecond)
			require.False(w, second.returned())
			allowed.Store(true)
			w.release(w.finally(second))
			require.Empty(w, w.Entries(queue))
		})
	}
}

// An older Proclaim that comes late must not overwrite a newer one that was acknowledged.
func TestLateProclaimChangesNothing(t *testing.T) {
	for _, late := range []int{1, 2, 3, 10} {
		inBubble(t, func(w *world) {
			a := w.open()
			leader := w.granted(w.startFor(a, recipe.Request{
				Queue: queue, Kind: driver.Candidate, Units: 1, Value: []byte("starting"),
			}))
			w.SetFault(plan(farsynctest.Replace, farsynctest.Late(late)))
			ctx, cancel := context.WithTimeout(w.Context(), time.Nanosecond)
			err := leader.hold.Change(ctx, driver.Candidate, []byte("old"))
			cancel()
			require.ErrorIs(w, err, recipe.ErrUncertain)
			require.NoError(w, leader.hold.Err())
			require.NoError(w, leader.hold.Change(w.Context(), driver.Candidate, []byte("new")))
			w.busy(a, late)
			require.Equal(w, "new", string(w.Entries(queue)[0].Value))
			require.NoError(w, leader.hold.Change(w.Context(), driver.Candidate, []byte("newer")))
			require.Equal(w, "newer", string(w.Entries(queue)[0].Value))
			w.release(leader)
		})
	}
}

// A connection whose other end is silent costs a second, whatever the TTL.
func TestSilenceCostsASecond(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.with(recipe.Options{TTL: time.Minute, Holder: "client-1"})
		w.Cleanup(func() { require.NoError(w, s.Close()) })
		for _, carriedOut := range []bool{false, true} {
			began := time.Now()
			w.SetFault(plan(farsynctest.Create, farsynctest.Silence(carriedOut)))
			first := w.finally(w.start(s))
			require.Less(w, time.Since(began), 2*time.Second)
			began = time.Now()
			w.SetFault(plan(farsynctest.Delete, farsynctest.Silence(carriedOut)))
			require.NoError(w, first.hold.Release())
			require.Less(w, time.Since(began), 2*time.Second)
			require.Empty(w, w.Entries(queue))
		}
	})
}

// Half of the renewals meet a silent server. The session is worth another try.
func TestSessionSurvivesASilentServer(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 3 * time.Second, 6 * time.Second, time.Minute} {
		inBubble(t, func(w *world) {
			s := w.with(recipe.Options{TTL: ttl, Holder: "client-1"})
			w.Cleanup(func() { require.NoError(w, s.Close()) })
			first := w.granted(w.start(s))
			var n atomic.Int64
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Renew && n.Add(1)%2 == 0 {
					return farsynctest.Silence(false)
				}
				return farsynctest.None
			})
			time.Sleep(10 * ttl)
			require.NoError(w, first.hold.Err())
			w.release(first)
		})
	}
}

// What the caller did not set has no place in its errors.
func TestOnlyTheCallersDeadlineIsInTheChain(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create {
				return farsynctest.Silence(false)
			}
			return farsynctest.None
		})
		first := w.start(a)
		time.Sleep(1500 * time.Millisecond)
		first.cancel()
		w.settle()
		require.ErrorIs(w, first.err, context.Canceled)
		require.ErrorIs(w, first.err, recipe.ErrUnavailable)
		require.NotErrorIs(w, first.err, context.DeadlineExceeded)
		require.ErrorContains(w, first.err, "no answer within 1s")
	})
}

// ErrUnavailable tells a service that does not answer from a lock that is taken.
func TestUnavailableOrTaken(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.granted(w.start(a)), w.start(b)
		time.Sleep(5 * time.Second)
		second.cancel()
		w.settle()
		require.ErrorIs(w, second.err, context.Canceled)
		require.NotErrorIs(w, second.err, recipe.ErrUnavailable, "it was the holder")

		third := w.start(b)
		w.Partition(b, true)
		time.Sleep(ttl / 2)
		require.Equal(w, recipe.Suspended, b.State())
		third.cancel()
		w.settle()
		require.ErrorIs(w, third.err, recipe.ErrUnavailable)
		time.Sleep(ttl)
		require.Equal(w, recipe.Lost, b.State())
		fourth := w.start(b)
		fourth.cancel()
		w.settle()
		require.ErrorIs(w, fourth.err, context.Canceled)
		require.ErrorIs(w, fourth.err, recipe.ErrUnavailable)
		w.Partition(b, false)
		w.release(first)
	})
}

func TestOpenWithoutAnAnswerIsUnavailable(t *testing.T) {
	inBubble(t, func(w *world) {
		w.SetFault(func(farsynctest.Op) farsynctest.Fault { return farsynctest.Silence(false) })
		began := time.Now()
		_, err := recipe.Open(w.Context(), w.Service("x"), recipe.Options{})
		require.ErrorIs(w, err, recipe.ErrUnavailable)
		require.NotErrorIs(w, err, context.DeadlineExceeded)
		require.Equal(w, 5*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err = recipe.Open(ctx, w.Service("x"), recipe.Options{})
		require.ErrorIs(w, err, recipe.ErrUnavailable)
		require.ErrorIs(w, err, context.DeadlineExceeded)

		w.SetFault(func(farsynctest.Op) farsynctest.Fault { return farsynctest.Refuse(errRefused) })
		_, err = recipe.Open(w.Context(), w.Service("x"), recipe.Options{})
		require.ErrorIs(w, err, errRefused)
		require.NotErrorIs(w, err, recipe.ErrUnavailable)
	})
}

// The goroutine that ends a call with its Store may come late; the call must not be answered all the same.
func TestNoCallOfAClosedStoreIsAnswered(t *testing.T) {
	for range 200 {
		inBubble(t, func(w *world) {
			s := w.open()
			require.NoError(w, s.Close())
			w.ResetCount()
			_, _, err := recipe.Queue{Store: s, Path: queue}.List(w.Context(), 0)
			require.Equal(w, recipe.ErrClosed, err)
			_, err = recipe.Acquire(w.Context(), s, new(trying(exclusive)))
			require.Equal(w, recipe.ErrClosed, err)
			require.Equal(w, recipe.ErrClosed, resize(w.Context(), s, 5, 5))
			require.Zero(w, w.Count())
		})
	}
}

// A liar is a driver that returns proofs which prove nothing.
type liar struct {
	driver.Service
	proof func(own driver.Entry) *driver.View
}

func (l liar) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := l.Service.Open(ctx, ttl)
	return liarSession{in, l}, err
}

type liarSession struct {
	driver.Session
	liar
}

func (l liarSession) Open(context.Context, time.Duration) (driver.Session, error) {
	panic("not a service")
}

func (l liarSession) Close(ctx context.Context) error { return l.Session.Close(ctx) }

func (l liarSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	_, err := l.Session.Watch(ctx, e, on, stands)
	return l.proof(e), err
}

func TestWhatProvesNothingGrantsNothing(t *testing.T) {
	for name, proof := range map[string]func(own driver.Entry) *driver.View{
		"empty":            func(driver.Entry) *driver.View { return &driver.View{} },
		"of another entry": func(driver.Entry) *driver.View { return &driver.View{Self: driver.Entry{ID: "x"}, All: true} },
		"of a part":        func(own driver.Entry) *driver.View { return &driver.View{Self: own} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				a := w.open()
				b, err := recipe.Open(w.Context(), liar{w.Service("liar"), proof}, recipe.Options{TTL: ttl})
				require.NoError(w, err)
				w.Cleanup(func() { require.NoError(w, b.Close()) })
				first := w.granted(w.start(a))
				second := w.start(b)
				for range 5 {
					w.Touch(first.hold.Entries()[0].ID)
					w.settle()
					require.False(w, second.returned())
				}
				w.release(first)
				w.release(w.granted(second))
			})
		})
	}
}
