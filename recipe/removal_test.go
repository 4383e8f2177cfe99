//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		t.hold, t.err = recipe.Acquire(ctx, s, &r)
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
				t.hold, t.err = recipe.Acquire(ctx, s, &exclusive)
			}))
		}
		w.settle()
		w.ResetCount()
		for _, each := range tries {
			<-each.done
			require.ErrorIs(w, each.err, context.DeadlineExceeded)
			require.ErrorContains(w, each.err, errRights.Error())
		}
		require.Zero(w, w.Count(looks...))
	})
}

// looks are the requests of those who look at a queue.
var looks = []farsynctest.OpKind{farsynctest.Ahead, farsynctest.List, farsynctest.Find, farsynctest.Owned}

// A Replaceable request that waits already when an entry ahead of it is not removed is told at once: when the service has refused, or has had its time.
// Nothing is asked for that.
func TestReplaceableRequestLeavesAnEntryThatStays(t *testing.T) {
	line := replaceable
	line.Line = true
	read, write := line, line
	read.Kind, write.Kind = driver.Read, driver.Write
	for _, row := range []struct {
		name       string
		held, asks recipe.Request
	}{
		{"mutex", line, line},
		{"mutex, with an entry of its own", replaceable, replaceable},
		{"an entry of its own, and a line", exclusive, line},
		{"write, read", write, read},
		{"read, write", read, write},
	} {
		for _, f := range removalFaults {
			t.Run(row.name+"/"+f.name, func(t *testing.T) {
				inBubble(t, func(w *world) {
					s := w.open()
					h := w.granted(w.startFor(s, row.held))
					var tries []*try
					stays := recipe.Request{Queue: queue, Kind: row.asks.Kind, Units: 1}
					patient := w.startFor(s, stays)
					for range 20 {
						tries = append(tries, w.startFor(s, row.asks))
					}
					time.Sleep(time.Second) // else its turn is handed on
					w.keep(f.fault)
					w.ResetCount()
					h.hold.Abandon()
					began := time.Now()
					within := map[string]time.Duration{"refused": 0, "put off": 2 * time.Second, "silent": time.Second}[f.name]
					for _, each := range tries {
						<-each.done
						require.LessOrEqual(w, each.at.Sub(began), within)
						require.ErrorContains(w, each.err, f.cause)
						require.ErrorContains(w, each.err, "given up")
						require.Equal(w, !f.refused, errors.Is(each.err, recipe.ErrUnavailable), each.err)
						require.NotErrorIs(w, each.err, recipe.ErrLocked)
						require.Empty(w, recipe.HolderOf(each.err))
					}
					require.Zero(w, w.Count(looks...))
					require.LessOrEqual(w, w.Count(farsynctest.Create), 1, "the line joins with one more entry when its holder goes")
					require.False(w, patient.returned(), "it has nothing else")
					w.SetFault(nil)
					require.NoError(w, w.finally(patient).hold.Release())
					time.Sleep(ttl)
					require.Empty(w, w.Entries(queue))
				})
			})
		}
	}
}

// A Replaceable request waits on for those whose entries are ahead of one that is not removed. It leaves once it is
// itself behind that, also if entries of another Store, which wait for the same, stand between the two: whatever
// those wait for besides, it cannot have the lock before all that is ahead of it has gone.
func TestReplaceableRequestWaitsAheadOfAnEntryThatStays(t *testing.T) {
	for _, f := range removalFaults {
		for _, holds := range []bool{false, true} { // another Store, ahead of all
			t.Run(fmt.Sprintf("%s/holds %v", f.name, holds), func(t *testing.T) {
				inBubble(t, func(w *world) {
					far, near := w.open(), w.open()
					var holder, ahead *try
					if holds {
						holder = w.granted(w.startFor(far, exclusive))
						ahead = w.startFor(near, replaceable)
					}
					stays := w.startFor(near, exclusive)
					between := w.startFor(far, exclusive)
					behind := w.startFor(near, exclusive)
					last := []*try{w.startFor(near, replaceable), w.startFor(near, replaceable)}
					furthest := w.startFor(far, exclusive)
					soon := w.within(near, exclusive, 3*time.Second)
					last = append(last, w.startFor(near, replaceable))
					w.keep(f.fault)
					began := time.Now()
					w.ResetCount()
					if holds {
						stays.cancel()
					} else {
						w.granted(stays).hold.Abandon()
					}
					for _, each := range last {
						<-each.done
						require.LessOrEqual(w, each.at.Sub(began), map[string]time.Duration{"refused": 0, "put off": 2 * time.Second, "silent": time.Second}[f.name])
						require.ErrorContains(w, each.err, "given up")
						require.ErrorContains(w, each.err, f.cause)
						require.Equal(w, !f.refused, errors.Is(each.err, recipe.ErrUnavailable), each.err)
						require.Empty(w, recipe.HolderOf(each.err))
					}
					require.Zero(w, w.Count(looks...))
					<-soon.done
					require.ErrorIs(w, soon.err, context.DeadlineExceeded)
					require.ErrorContains(w, soon.err, "behind", "it is so, and who may hold is not known")
					require.False(w, behind.returned())
					w.SetFault(nil)
					if holds {
						require.False(w, ahead.returned())
						w.release(holder)
						w.release(w.finally(ahead))
					}
					w.release(w.finally(between))
					w.release(w.finally(behind))
					w.release(w.finally(furthest))
					time.Sleep(ttl)
					require.Empty(w, w.Entries(queue))
				})
			})
		}
	}
}

// Readers beside an entry that is not removed: one leaves which waits for a writer behind it, of this Store or not.
func TestReplaceableReaderLeavesAWriterWhoWaitsForAnEntryThatStays(t *testing.T) {
	of := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1} }
	read := of(driver.Read)
	read.Replaceable = true
	for _, f := range removalFaults {
		for _, kind := range []driver.Kind{driver.Read, driver.Write} {
			t.Run(fmt.Sprintf("%s/%v", f.name, kind), func(t *testing.T) {
				inBubble(t, func(w *world) {
					far, near := w.open(), w.open()
					stays := w.granted(w.startFor(near, of(kind)))
					writer := w.startFor(far, of(driver.Write))
					reader := w.startFor(near, read)
					w.keep(f.fault)
					stays.hold.Abandon()
					time.Sleep(2 * time.Second)
					require.True(w, reader.returned())
					require.ErrorContains(w, reader.err, f.cause)
					w.SetFault(nil)
					w.release(w.finally(writer))
				})
			})
		}
	}
}

// A Replaceable reader waits on for a writer who does not wait for the entry that is not removed.
func TestReplaceableReaderWaitsForAWriterAheadOfAnEntryThatStays(t *testing.T) {
	of := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1} }
	read := of(driver.Read)
	read.Replaceable = true
	for _, f := range removalFaults {
		t.Run(f.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				far, near := w.open(), w.open()
				writer := w.granted(w.startFor(far, of(driver.Write)))
				stays := w.startFor(near, of(driver.Read))
				reader := w.startFor(near, read)
				w.keep(f.fault)
				stays.cancel()
				time.Sleep(5 * time.Second)
				require.False(w, reader.returned())
				w.SetFault(nil)
				w.release(writer)
				w.release(w.finally(reader))
			})
		})
	}
}

// A crowd that waits in a line for a service which can be replaced is told at once, with no request for it.
func TestCrowdLeavesAnEntryThatStays(t *testing.T) {
	const crowd = 1000
	inBubble(t, func(w *world) {
		s := w.open()
		h := w.granted(w.startFor(s, exclusive))
		line := replaceable
		line.Line = true
		var tries []*try
		for range crowd {
			tries = append(tries, w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, s, &line) }))
		}
		w.settle()
		w.keep(removalFaults[0].fault)
		w.ResetCount()
		began := time.Now()
		require.ErrorIs(w, h.hold.Release(), errRights)
		for _, each := range tries {
			<-each.done
			require.Zero(w, each.at.Sub(began))
			require.ErrorIs(w, each.err, errRights)
		}
		require.Zero(w, w.Count(looks...))
		require.Zero(w, w.Count(farsynctest.Create, farsynctest.Watch))
	})
}

// That an entry is not removed is said once for a queue, until all of its entries are removed. Of a service which does not answer it is said if a call
// waits there: the others have been told by their own errors.
func TestEntryThatStaysIsLoggedOnce(t *testing.T) {
	for _, f := range removalFaults {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/waits %v", f.name, waits), func(t *testing.T) {
				inBubble(t, func(w *world) {
					s, book := w.noted(slog.LevelError)
					for range 2 {
						held := []*try{w.granted(w.start(s)), w.startFor(s, exclusive), w.startFor(s, exclusive)}
						var patient *try
						if waits {
							patient = w.startFor(s, exclusive)
						}
						w.keep(f.fault)
						held[2].cancel()
						held[1].cancel()
						held[0].hold.Abandon()
						time.Sleep(3 * time.Second)
						got := book.take()
						if f.refused || waits {
							require.Len(w, got, 1)
							require.Contains(w, got[0], "ERROR entry not removed: trying again until the session ends: store=test path=/q kind=exclusive cause=")
							require.Contains(w, got[0], f.cause)
						} else {
							require.Empty(w, got)
						}
						time.Sleep(5 * time.Second)
						w.SetFault(nil)
						if waits {
							require.NoError(w, w.finally(patient).hold.Release())
						}
						time.Sleep(ttl)
						require.Empty(w, book.take())
					}
				})
			})
		}
	}
}
