//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A person removes the entry of a lock that has been held for a while: its holder is told at once, not when it releases.
func TestLongHoldIsToldThatItsEntryIsGone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		g := newGate(a)
		first, second := w.granted(w.startGate(g)), w.start(b)
		time.Sleep(ttl)
		w.ResetCount()
		require.True(w, w.Touch(w.Entries(queue)[0].ID))
		w.settle()
		require.NoError(w, first.hold.Err(), "an event is a hint")
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
		<-first.hold.Life().Done()
		require.Empty(w, first.hold.Entries())
		_, err := first.hold.Again()
		require.ErrorIs(w, err, recipe.ErrLost)
		w.granted(second)
		_, err = g.TryAcquire(w.Context())
		require.ErrorIs(w, err, recipe.ErrLocked)
		w.release(second)
		third := w.granted(w.startGate(g))
		require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		require.NoError(w, third.hold.Err())
		w.release(third)
	})
}

// The entry of a lock is gone as soon as that is granted, as at a server that has taken over without it. Its holder is
// told once it has held for as long as an entry is watched after, and half as long again at most.
func TestHoldWhoseEntryGoesAtOnceIsToldInTime(t *testing.T) {
	// The time since the session first held anything.
	for held := time.Duration(0); held < 5*time.Second; held += 100 * time.Millisecond {
		inBubble(t, func(w *world) {
			a := w.open()
			w.release(w.granted(w.start(a)))
			time.Sleep(held)
			first := w.granted(w.start(a))
			w.Delete(w.Entries(queue)[0].ID)
			time.Sleep(min(ttl/3, 3*time.Second) - time.Millisecond)
			w.settle()
			require.NoError(w, first.hold.Err(), "shorter holds never pay for a watch")
			time.Sleep(min(ttl/3, 3*time.Second)/2 + 2*time.Millisecond)
			w.settle()
			require.ErrorIs(w, first.hold.Err(), recipe.ErrLost)
			require.ErrorIs(w, first.hold.Release(), recipe.ErrLost)
		})
	}
}

// All turns on the grant end with it.
func TestAllHoldsOfAnEntryAreToldThatItIsGone(t *testing.T) {
	inBubble(t, func(w *world) {
		read := gateFor(w.open(), recipe.Request{Queue: queue, Kind: driver.Read, Units: 1})
		readers := []*try{w.startGate(read), w.startGate(read), w.startGate(read)}
		require.Len(w, w.Entries(queue), 1)
		time.Sleep(ttl)
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		for _, r := range readers {
			require.ErrorIs(w, w.granted(r).hold.Err(), recipe.ErrLost)
			require.ErrorIs(w, r.hold.Release(), recipe.ErrLost)
		}
	})
}

// A writer that has become a reader is watched as that.
func TestDowngradedHoldIsWatchedOn(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.writer(w.open())
		time.Sleep(ttl)
		require.NoError(w, h.Change(w.Context(), driver.Read, nil))
		time.Sleep(ttl)
		require.NoError(w, h.Err())
		w.Delete(w.Entries(queue)[0].ID)
		w.settle()
		require.ErrorIs(w, h.Err(), recipe.ErrLost)
		require.ErrorIs(w, h.Release(), recipe.ErrLost)
	})
}

// changesUnanswered has a holder ask to become a reader, while no answer to that comes. The caller ends the fault.
func (w *world) changesUnanswered(h *recipe.Hold) <-chan error {
	w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
		if op.Kind == farsynctest.Replace || op.Kind == farsynctest.Find {
			return farsynctest.LoseReply
		}
		return farsynctest.None
	})
	changed := make(chan error, 1)
	go func() { changed <- h.Change(w.Context(), driver.Read, nil) }() // joined by who receives
	return changed
}

// The answer to a downgrade is lost. The watch on the writer's entry sees that go, which is not the end of the hold.
func TestDowngradeWithoutAnAnswerIsNoRemoval(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.writer(w.open())
		time.Sleep(ttl)
		changed := w.changesUnanswered(h)
		w.settle()
		require.True(w, w.Touch(w.Entries(queue)[0].ID)) // as where the one node is removed for the other
		w.settle()
		w.SetFault(nil)
		require.NoError(w, <-changed)
		require.NoError(w, h.Release())
	})
}

// A short hold costs nothing more than before, a long one a watch.
func TestWhatALongHoldCosts(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		for _, row := range []struct {
			held    time.Duration
			watches int
		}{{time.Second, 0}, {25 * time.Second, 1}} {
			w.ResetCount()
			first := w.granted(w.start(s))
			time.Sleep(row.held)
			w.release(first)
			require.Equal(w, row.watches, w.Count(farsynctest.Watch))
			require.Zero(w, w.Count(farsynctest.Find))
			require.Equal(w, 2+row.watches, w.Count()-w.Count(farsynctest.Renew))
		}
	})
}

// A watch that the service refuses ends nothing.
func TestLongHoldThatMayNotBeWatched(t *testing.T) {
	inBubble(t, func(w *world) {
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch || op.Kind == farsynctest.Find {
				return farsynctest.Refuse(errRefused)
			}
			return farsynctest.None
		})
		first := w.granted(w.start(w.open()))
		time.Sleep(10 * ttl)
		require.Less(w, w.Count(), 100)
		w.release(first)
	})
}

// A deceived driver shows an entry ahead of all, as where the client holds by something that another program has
// written.
type deceived struct {
	driver.Service
	ahead atomic.Pointer[driver.Entry] // nil while it shows what is there
	looks atomic.Int64
	stood atomic.Int64                                    // watches
	as    atomic.Pointer[func(driver.Entry) driver.Entry] // how the service shows the entry of the client itself, if it was changed
	stirs time.Duration                                   // after which time a watch is woken by what does not matter; 0: never

	tells bool           // Find tells the session of what is there
	later []driver.Entry // ahead of the entry that ahead has; Find finds all of them
}

func (d *deceived) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := d.Service.Open(ctx, ttl)
	return deceivedSession{in, d}, err
}

type deceivedSession struct {
	driver.Session
	of *deceived
}

func (d deceivedSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	d.of.stood.Add(1)
	if d.of.stirs == 0 {
		return d.Session.Watch(ctx, e, on, stands)
	}
	bound, cancel := context.WithTimeout(ctx, d.of.stirs)
	defer cancel()
	seen, err := d.Session.Watch(bound, e, on, stands)
	if bound.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return seen, err
}

func (d deceivedSession) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	v, err := d.Session.Ahead(ctx, e, waiting)
	d.of.looks.Add(1)
	if as := d.of.as.Load(); err == nil && as != nil {
		v.Self = (*as)(v.Self)
		if v.Self.Queue != e.Queue {
			return driver.View{}, driver.ErrGone
		}
	}
	if first := d.of.ahead.Load(); err == nil && first != nil {
		v.Entries = append([]driver.Entry{*first}, v.Entries...)
		if !waiting { // else the nearest is enough
			v.Entries = append(slices.Clone(d.of.later), v.Entries...)
		}
	}
	return v, err
}

func (d deceivedSession) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	if first := d.of.ahead.Load(); first != nil {
		for _, other := range append(d.of.later, *first) {
			if other.ID == e.ID {
				return other, nil
			}
		}
	}
	e, err := d.Session.Find(ctx, e)
	if as := d.of.as.Load(); err == nil && as != nil {
		e = (*as)(e)
	}
	if d.of.tells {
		e.Session = "a session"
	}
	return e, err
}

// TestHoldBehindAnotherIsLost: what lets an entry in was written by another program, and another entry still stands
// ahead of it and holds. Its holder is told within 48 s, by a look that takes the place of one for words. An entry that
// is ahead for a moment costs nobody a lock.
func TestHoldBehindAnotherIsLost(t *testing.T) {
	for _, kind := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Candidate} {
		inBubble(t, func(w *world) {
			service := &deceived{Service: w.Service("deceived")}
			s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl, Holder: "deceived"})
			require.NoError(w, err)
			held := w.granted(w.startFor(s, recipe.Request{Queue: queue, Kind: kind, Units: 1}))
			time.Sleep(10 * time.Minute)
			require.NoError(w, held.hold.Err())
			require.Positive(w, service.looks.Load())
			first := &driver.Entry{Queue: queue, ID: queue + "/first", Kind: driver.Write, Value: []byte("holder"), Units: 1}
			for range 20 {
				service.looks.Store(0)
				service.ahead.Store(first)
				for service.looks.Load() == 0 {
					time.Sleep(time.Second)
				}
				service.ahead.Store(nil)
				time.Sleep(5 * time.Second)
			}
			require.NoError(w, held.hold.Err(), "it was there for a moment")

			service.ahead.Store(first)
			since := time.Now()
			<-held.hold.Life().Done()
			require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
			require.ErrorContains(w, held.hold.Err(), `"holder" (entry "/q/first") is ahead of its entry in the queue`)
			require.LessOrEqual(w, time.Since(since), 48*time.Second)
			w.settle()
			require.Empty(w, w.Entries(queue))
			require.ErrorIs(w, held.hold.Release(), recipe.ErrLost)
			require.NoError(w, s.Close())
		})
	}
}

// TestEntryThatIsNotAsItWasMadeIsLost: another program has changed what the entry of a holder asks for, so others may
// be granted beside it. Its holder is told within 48 s, also while the words of a client stay that has asked for the
// lock.
func TestEntryThatIsNotAsItWasMadeIsLost(t *testing.T) {
	requests := map[driver.Kind]recipe.Request{driver.Permit: permits(2, 2)}
	for _, kind := range []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Candidate} {
		requests[kind] = recipe.Request{Queue: queue, Kind: kind, Units: 1}
	}
	for name, as := range map[string]func(driver.Entry) driver.Entry{
		"queue":    func(e driver.Entry) driver.Entry { e.Queue = "/else"; return e },
		"kind":     func(e driver.Entry) driver.Entry { e.Kind = driver.Foreign; return e },
		"reader":   func(e driver.Entry) driver.Entry { e.Kind = driver.Read; return e },
		"units":    func(e driver.Entry) driver.Entry { e.Units = -5; return e },
		"revision": func(e driver.Entry) driver.Entry { e.Revision++; return e },
	} {
		for kind, request := range requests {
			if name == "reader" && kind == driver.Read {
				continue
			}
			for _, asked := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " of ", kind, " asked ", asked), func(t *testing.T) {
					inBubble(t, func(w *world) {
						service := &deceived{Service: w.Service("deceived")}
						s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl, Holder: "deceived"})
						require.NoError(w, err)
						held := w.granted(w.startFor(s, request))
						if asked {
							require.NoError(w, recipe.Queue{Store: s, Path: queue}.Ask(w.Context(), w.Entries(queue)[0]))
						}
						time.Sleep(10 * time.Minute)
						require.NoError(w, held.hold.Err())

						service.as.Store(&as)
						time.Sleep(48 * time.Second)
						w.settle()
						require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
						require.ErrorContains(w, held.hold.Err(), "its entry was changed by another client")
						require.Empty(w, w.Entries(queue))
						require.ErrorIs(w, held.hold.Release(), recipe.ErrLost)
						require.NoError(w, s.Close())
					})
				})
			}
		}
	}
}

// TestHolderWhoIsWokenAllTheTimeLooksInTime: somebody who writes to the entry of a holder more often than it looks at its
// queue does not put that off, whenever between two looks the entry is changed.
func TestHolderWhoIsWokenAllTheTimeLooksInTime(t *testing.T) {
	for phase := time.Duration(0); phase < time.Minute; phase += 10 * time.Second {
		t.Run(phase.String(), func(t *testing.T) {
			inBubble(t, func(w *world) {
				service := &deceived{Service: w.Service("deceived"), stirs: 29900 * time.Millisecond}
				s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl, Holder: "deceived"})
				require.NoError(w, err)
				held := w.granted(w.startFor(s, recipe.Request{Queue: queue, Kind: driver.Exclusive, Units: 1}))
				time.Sleep(10*time.Minute + phase)
				require.NoError(w, held.hold.Err())

				as := func(e driver.Entry) driver.Entry { e.Revision++; return e }
				service.as.Store(&as)
				time.Sleep(48 * time.Second)
				w.settle()
				require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
				require.NoError(w, s.Close())
			})
		})
	}
}

// TestHolderWhoIsLeftAloneWatchesOnceALook: one watch and one look at the queue, every 30 to 45 seconds.
func TestHolderWhoIsLeftAloneWatchesOnceALook(t *testing.T) {
	inBubble(t, func(w *world) {
		service := &deceived{Service: w.Service("deceived")}
		s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: ttl, Holder: "deceived"})
		require.NoError(w, err)
		w.granted(w.startFor(s, recipe.Request{Queue: queue, Kind: driver.Exclusive, Units: 1}))
		const long = time.Hour
		time.Sleep(long)
		w.settle()
		looks := service.looks.Load()
		require.GreaterOrEqual(w, looks, int64(long/(45*time.Second))-1)
		require.LessOrEqual(w, looks, int64(long/(30*time.Second)))
		require.Equal(w, looks+1, service.stood.Load(), "and the watch that stands")
		require.NoError(w, s.Close())
	})
}

// TestDowngradeThatTakesLongIsNoChangeOfAnotherClient: the entry is a reader's while its holder still waits for the
// answer to say so.
func TestDowngradeThatTakesLongIsNoChangeOfAnotherClient(t *testing.T) {
	inBubble(t, func(w *world) {
		h := w.writer(w.open())
		time.Sleep(ttl)
		changed := w.changesUnanswered(h)
		time.Sleep(10 * time.Minute)
		require.NoError(w, h.Err())
		w.SetFault(nil)
		require.NoError(w, <-changed)
		time.Sleep(10 * time.Minute)
		require.NoError(w, h.Release())
	})
}

// TestStrayThatComesAheadEndsNoHold: no client holds by an entry that belongs to no session and has come after the holder's. An entry of a
// session does, and so may an entry that was there before, and all of a service that tells no sessions.
func TestStrayThatComesAheadEndsNoHold(t *testing.T) {
	before, after := int64(-1), int64(1)
	for name, row := range map[string]struct {
		tells      bool
		at         int64 // its revision, counted from the holder's
		by         string
		later      string // the session of another entry, further ahead
		further    bool
		lost, told bool
	}{
		"a stray that came later":                     {tells: true, at: after, told: true},
		"a stray behind another":                      {tells: true, at: after, further: true, told: true},
		"a stray that hides an entry of a session":    {tells: true, at: after, further: true, later: "theirs", lost: true},
		"a stray that was there before":               {tells: true, at: before, lost: true},
		"an entry of a session that came later":       {tells: true, at: after, by: "theirs", lost: true},
		"an entry of a service without session names": {at: after, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var log bytes.Buffer
				service := &deceived{Service: w.Service("deceived"), tells: row.tells}
				s, err := recipe.Open(w.Context(), service, recipe.Options{
					TTL: ttl, Holder: "deceived", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				})
				require.NoError(w, err)
				held := w.granted(w.start(s))
				revision, _ := held.hold.Token()
				first := &driver.Entry{Queue: queue, ID: queue + "/0", Kind: driver.Foreign, Units: 1, Revision: revision + row.at, Session: row.by}
				if row.further {
					service.later = []driver.Entry{{Queue: queue, ID: queue + "/-", Units: 1, Revision: revision + row.at, Session: row.later}}
				}
				service.ahead.Store(first)
				time.Sleep(10 * time.Minute)
				w.settle()
				if row.lost {
					require.ErrorIs(w, held.hold.Err(), recipe.ErrLost)
					require.ErrorContains(w, held.hold.Err(), "is ahead of its entry in the queue")
					require.ErrorIs(w, held.hold.Release(), recipe.ErrLost)
				} else {
					w.release(held)
				}
				require.NoError(w, s.Close())
				told := strings.Count(log.String(), `entry \"/q/0\" belongs to no session and stands ahead`)
				require.Equal(w, row.told, told == 1, log.String())
			})
		})
	}
}

// TestUnitsOfASemaphoreThatWasMadeSmallerAreHeldOn: entries ahead of a permit say nothing.
func TestUnitsOfASemaphoreThatWasMadeSmallerAreHeldOn(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first, second := w.granted(w.startFor(s, permits(1, 2))), w.granted(w.startFor(s, permits(1, 2)))
		w.resize(s, 2, 1, 2)
		time.Sleep(10 * time.Minute)
		w.release(first)
		require.NoError(w, second.hold.Err())
		w.ResetCount()
		time.Sleep(time.Minute)
		require.Positive(w, w.Count(farsynctest.Find), "whether it is there is asked now and then")
		w.release(second)
	})
}
