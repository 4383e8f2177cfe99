package drivertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver/drivertest"
)

// A judged is a test that CheckTrace may fail.
type judged struct {
	testing.TB
	failed bool
	over   func()
}

func (j *judged) Errorf(string, ...any) { j.failed = true }
func (j *judged) Cleanup(f func())      { j.over = f }

func TestCheckTraceFindsDisorder(t *testing.T) {
	want := farsync.Want{Path: "/q", Kind: farsync.KindExclusive, Units: 1}
	tries := want
	tries.Try = true
	end := farsync.End{Want: want, Token: 256, Err: farsync.ErrReleased}
	session := func(was, is farsync.State, opened bool, cause error) farsync.Health {
		return farsync.Health{Was: was, State: is, Opened: opened, TTL: time.Second, Cause: cause}
	}
	for name, c := range map[string]struct {
		fine bool
		tell func(ctx context.Context, trace *farsync.Trace)
	}{
		"a lock": {true, func(ctx context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.Connected, true, nil))
			ctx, got := trace.Acquire(ctx, want)
			trace.Note(ctx, want)
			trace.Wait(ctx, want, farsync.Behind{Ahead: 1})
			got(farsync.Got{Token: 256})
			trace.Ended(end)
			trace.Session(session(farsync.Connected, farsync.Suspended, false, context.Canceled))
			trace.Session(session(farsync.Suspended, farsync.Lost, false, farsync.ErrClosed))
		}},
		"a call that does not end":    {false, func(ctx context.Context, trace *farsync.Trace) { trace.Acquire(ctx, want) }},
		"an end of what was not held": {false, func(_ context.Context, trace *farsync.Trace) { trace.Ended(end) }},
		"a hold that does not end": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.Got{Token: 256})
		}},
		"a hold that ends for no reason": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.Got{Token: 256})
			trace.Ended(farsync.End{Want: want, Token: 256, Err: context.Canceled})
		}},
		"a call that ends twice": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.Got{Err: errors.New("no")})
			got(farsync.Got{Err: errors.New("no")})
		}},
		"a wait of no call": {false, func(ctx context.Context, trace *farsync.Trace) { trace.Wait(ctx, want, farsync.Behind{Ahead: 1}) }},
		"a try that waits": {false, func(ctx context.Context, trace *farsync.Trace) {
			ctx, got := trace.Acquire(ctx, tries)
			trace.Note(ctx, tries)
			trace.Wait(ctx, tries, farsync.Behind{Ahead: 1})
			got(farsync.Got{Err: farsync.ErrLocked})
		}},
		"a session that leaps": {false, func(_ context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.Suspended, false, context.Canceled))
			trace.Session(session(farsync.Suspended, farsync.Lost, false, farsync.ErrClosed))
		}},
		"a session that goes on": {false, func(_ context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.Connected, true, nil))
		}},
	} {
		j := &judged{TB: t}
		c.tell(t.Context(), drivertest.CheckTrace(j))
		j.over()
		require.Equal(t, !c.fine, j.failed, name)
	}
}
