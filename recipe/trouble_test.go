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

// While the service is full, no caller of a line is told that it has waited for a goroutine of its process: nobody holds, whether the caller
// ahead of it waits, has just given up and left the line to an entry of its own, or was the last to wait.
func TestFullServiceIsNotToldAsAHolder(t *testing.T) {
	errFull := errors.New("the table is full")
	units := func(n int64) recipe.Request {
		return recipe.Request{Queue: queue, Kind: driver.Permit, Units: n, Size: 3, Line: true}
	}
	line := func(k driver.Kind) recipe.Request { return recipe.Request{Queue: queue, Kind: k, Units: 1, Line: true} }
	for name, r := range map[string]recipe.Request{
		"exclusive": line(driver.Exclusive), "read": line(driver.Read), "write": line(driver.Write), "permit": units(1), "permits": units(2),
		"alone": exclusive, "candidate": {Queue: queue, Kind: driver.Candidate, Units: 1, Value: []byte("v")},
	} {
		for _, row := range []struct {
			name         string
			first, other time.Duration // when the callers give up
		}{
			{"the first waits on", time.Minute, 3 * time.Second},
			{"the first gives up at the same time", 3 * time.Second, 3 * time.Second},
			{"the first gave up just before", 3*time.Second - time.Millisecond, 3 * time.Second},
			{"the first gave up long before", 2 * time.Second, 5 * time.Second},
		} {
			t.Run(name+"/"+row.name, func(t *testing.T) {
				inBubble(t, func(w *world) {
					s := w.open()
					w.Cleanup(func() { w.SetFault(nil) })
					w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
						if op.Kind == farsynctest.Create {
							return farsynctest.Fail(driver.NotDone, errFull)
						}
						return farsynctest.None
					})
					within := func(r recipe.Request, d time.Duration) *try {
						return w.begin(func(ctx context.Context, t *try) {
							ctx, cancel := context.WithTimeout(ctx, d)
							defer cancel()
							t.hold, t.err = recipe.Acquire(ctx, s, &r)
						})
					}
					n := 2
					if r.Kind == driver.Permit {
						n = 20 // more than have an entry each
					}
					tries := []*try{within(r, row.first)}
					for range n {
						tries = append(tries, within(r, row.other))
					}
					time.Sleep(row.other - 500*time.Millisecond)
					tries = append(tries, within(trying(r), 500*time.Millisecond))
					for _, each := range tries {
						<-each.done
						require.NotErrorIs(w, each.err, recipe.ErrLocked)
						require.ErrorContains(w, each.err, errFull.Error())
						require.NotContains(w, each.err.Error(), "waiting behind")
						require.Empty(w, recipe.HolderOf(each.err))
					}
					for _, each := range tries[:len(tries)-1] { // each has waited for longer than an answer may take
						require.ErrorIs(w, each.err, recipe.ErrUnavailable)
					}
				})
			})
		}
	}
}

// The last of a line, whose entry goes with it, is told of whom it has waited for.
func TestLastOfALineIsToldWhoHolds(t *testing.T) {
	permit := recipe.Request{Queue: queue, Kind: driver.Permit, Units: 1, Size: 1}
	for name, r := range map[string]recipe.Request{"exclusive": exclusive, "permit": permit} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				near, far := w.open(), w.open()
				holder := w.granted(w.startFor(far, r))
				g := gateFor(near, r)
				var tries []*try
				for i := range 18 {
					tries = append(tries, w.begin(func(ctx context.Context, t *try) {
						ctx, cancel := context.WithTimeout(ctx, time.Second+time.Duration(i)*time.Second)
						defer cancel()
						t.hold, t.err = g.Acquire(ctx)
					}))
				}
				for _, each := range tries {
					<-each.done
					require.ErrorContains(w, each.err, `waiting behind "client-`) // of permits the nearest may be a waiter of this process
				}
				w.release(holder)
			})
		})
	}
}
