//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

var errRights = errors.New("no right to delete")

// removalFaults are what may keep an entry in its queue that its Store has given up.
var removalFaults = []struct {
	name    string
	fault   farsynctest.Fault
	refused bool
	cause   string
}{
	{"refused", farsynctest.Fail(driver.Refused, errRights), true, errRights.Error()},
	{"put off", farsynctest.Fail(driver.NotDone, errRights), false, errRights.Error()},
	{"silent", farsynctest.Silence(false), false, "no answer"},
}

// keep has every removal fail.
func (w *world) keep(fault farsynctest.Fault) {
	w.Cleanup(func() { w.SetFault(nil) })
	w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
		if op.Kind == farsynctest.Delete {
			return fault
		}
		return farsynctest.None
	})
}

// within begins an Acquire that gives up after d.
func (w *world) within(s *recipe.Store, r recipe.Request, d time.Duration) *try {
	return w.begin(func(ctx context.Context, t *try) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		t.hold, t.err = recipe.Acquire(ctx, s, r)
	})
}

// A Store whose entry is not removed is in its own way. That is not told as the state of the lock, which nobody holds, and ends with the
// service's trouble.
func TestEntryThatStaysIsNotToldAsAHolder(t *testing.T) {
	line := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1, Line: true} }
	units := func(n int64) recipe.Request {
		return recipe.Request{Queue: queue, Kind: driver.Permit, Units: n, Size: 3, Line: true}
	}
	candidate := recipe.Request{Queue: queue, Kind: driver.Candidate, Units: 1, Value: []byte("v")}
	for _, row := range []struct {
		name       string
		held, asks recipe.Request
	}{
		{"mutex", line(driver.Exclusive), line(driver.Exclusive)},
		{"mutex, with an entry of its own", exclusive, exclusive},
		{"write, write", line(driver.Write), line(driver.Write)},
		{"write, read", line(driver.Write), line(driver.Read)},
		{"read, write", line(driver.Read), line(driver.Write)},
		{"semaphore, 3 and 1", units(3), units(1)},
		{"semaphore, 2 and 2", units(2), units(2)},
		{"election", candidate, candidate},
	} {
		for _, f := range removalFaults {
			t.Run(row.name+"/"+f.name, func(t *testing.T) {
				inBubble(t, func(w *world) {
					s := w.open()
					h := w.granted(w.startFor(s, row.held))
					w.keep(f.fault)
					released := make(chan error, 1)
					go func() { released <- h.hold.Release() }()
					w.settle() // else its turn is handed on
					tries := []*try{w.within(s, row.asks, 7*time.Second)}
					for range 20 { // of a semaphore, more than have an entry each
						tries = append(tries, w.within(s, row.asks, 6*time.Second))
					}
					stays := w.within(s, row.asks, time.Hour)
					time.Sleep(2 * time.Second)
					for range 2 {
						began := time.Now()
						tried := w.within(s, trying(row.asks), 100*time.Millisecond)
						<-tried.done
						if !f.refused {
							require.ErrorIs(w, tried.err, recipe.ErrUnavailable)
						} else {
							require.ErrorIs(w, tried.err, errRights)
						}
						if f.name == "refused" {
							require.Zero(w, time.Since(began))
						}
						tries = append(tries, tried)
						time.Sleep(2 * time.Second)
					}
					for _, each := range tries {
						<-each.done
						require.Error(w, each.err)
						require.NotErrorIs(w, each.err, recipe.ErrLocked)
						require.ErrorContains(w, each.err, f.cause)
						require.Equal(w, !f.refused, errors.Is(each.err, recipe.ErrUnavailable), each.err)
						for _, lie := range []string{"behind", "held", "locked", "client-1"} {
							require.NotContains(w, each.err.Error(), lie)
						}
						require.Empty(w, recipe.HolderOf(each.err))
					}
					require.Error(w, <-released)

					w.SetFault(nil)
					w.finally(stays)
					require.NoError(w, stays.hold.Release())
					time.Sleep(ttl)
					require.Empty(w, w.Entries(queue), "each removal is repeated until it works")
					w.release(w.granted(w.startFor(s, trying(row.asks))))
				})
			})
		}
	}
}

// An entry that a caller has left behind, and that is not removed, hides nobody who holds.
func TestEntryThatStaysHidesNoHolder(t *testing.T) {
	of := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1} }
	units := func(n int64) recipe.Request {
		return recipe.Request{Queue: queue, Kind: driver.Permit, Units: n, Size: 3}
	}
	for _, row := range []struct {
		name              string
		held, stays, asks recipe.Request
	}{
		{"a waiter's", exclusive, exclusive, exclusive},
		{"a writer's behind a writer", of(driver.Write), of(driver.Write), of(driver.Read)},
		{"a reader's beside a reader", of(driver.Read), of(driver.Read), of(driver.Write)},
		{"a permit", units(2), units(1), units(2)},
	} {
		for _, f := range removalFaults {
			t.Run(row.name+"/"+f.name, func(t *testing.T) {
				inBubble(t, func(w *world) {
					far, near := w.open(), w.open()
					holder := w.granted(w.startFor(far, row.held))
					w.keep(f.fault)
					if stays := w.within(near, row.stays, time.Second); stays.returned() {
						w.granted(stays)
						stays.hold.Abandon()
					}
					time.Sleep(4 * time.Second)
					tried := w.within(near, trying(row.asks), time.Second)
					<-tried.done
					require.ErrorIs(w, tried.err, recipe.ErrLocked)
					require.Equal(w, "client-1", recipe.HolderOf(tried.err))
					w.SetFault(nil)
					w.release(holder)
					time.Sleep(ttl)
					w.release(w.granted(w.startFor(near, trying(row.asks))))
				})
			})
		}
	}
}

// A crowd, of which each has an entry of its own, gives up while an entry is not removed: it looks at nothing for that.
func TestCrowdThatGivesUpBehindAnEntryThatStays(t *testing.T) {
	const crowd = 800
	inBubble(t, func(w *world) {
		s := w.open()
		h := w.granted(w.start(s))
		w.keep(removalFaults[0].fault)
		require.ErrorIs(w, h.hold.Release(), errRights)
		var tries []*try
		for range crowd {
			tries = append(tries, w.launch(func(ctx context.Context, t *try) {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				t.hold, t.err = recipe.Acquire(ctx, s, exclusive)
			}))
		}
		w.settle()
		w.ResetCount()
		for _, each := range tries {
			<-each.done
			require.ErrorIs(w, each.err, context.DeadlineExceeded)
			require.ErrorContains(w, each.err, errRights.Error())
		}
		require.Zero(w, w.Count(farsynctest.Ahead, farsynctest.List, farsynctest.Find, farsynctest.Owned, farsynctest.Create))
	})
}
