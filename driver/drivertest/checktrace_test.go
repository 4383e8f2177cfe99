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
	want := farsync.TraceCall{Path: "/q", Kind: farsync.KindExclusive, Units: 1}
	tries := want
	tries.Try = true
	end := farsync.TraceEnd{TraceCall: want, Token: 256, Err: farsync.ErrReleased}
	session := func(was, is farsync.State, opened bool, cause error) farsync.TraceSession {
		return farsync.TraceSession{Was: was, State: is, Opened: opened, TTL: time.Second, Cause: cause}
	}
	for name, c := range map[string]struct {
		fine bool
		tell func(ctx context.Context, trace *farsync.Trace)
	}{
		"a lock": {true, func(ctx context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.StateConnected, true, nil))
			ctx, got := trace.Acquire(ctx, want)
			trace.Note(ctx, want)
			trace.Wait(ctx, want, farsync.TraceWait{Ahead: 1})
			got(farsync.TraceResult{Token: 256})
			trace.Ended(end)
			trace.Session(session(farsync.StateConnected, farsync.StateSuspended, false, context.Canceled))
			trace.Session(session(farsync.StateSuspended, farsync.StateLost, false, farsync.ErrClosed))
		}},
		"a call that does not end":    {false, func(ctx context.Context, trace *farsync.Trace) { trace.Acquire(ctx, want) }},
		"an end of what was not held": {false, func(_ context.Context, trace *farsync.Trace) { trace.Ended(end) }},
		"a hold that does not end": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.TraceResult{Token: 256})
		}},
		"a hold that ends for no reason": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.TraceResult{Token: 256})
			trace.Ended(farsync.TraceEnd{TraceCall: want, Token: 256, Err: context.Canceled})
		}},
		"a call that ends twice": {false, func(ctx context.Context, trace *farsync.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(farsync.TraceResult{Err: errors.New("no")})
			got(farsync.TraceResult{Err: errors.New("no")})
		}},
		"a wait of no call": {false, func(ctx context.Context, trace *farsync.Trace) { trace.Wait(ctx, want, farsync.TraceWait{Ahead: 1}) }},
		"a try that waits": {false, func(ctx context.Context, trace *farsync.Trace) {
			ctx, got := trace.Acquire(ctx, tries)
			trace.Note(ctx, tries)
			trace.Wait(ctx, tries, farsync.TraceWait{Ahead: 1})
			got(farsync.TraceResult{Err: farsync.ErrLocked})
		}},
		"a session that leaps": {false, func(_ context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.StateSuspended, false, context.Canceled))
			trace.Session(session(farsync.StateSuspended, farsync.StateLost, false, farsync.ErrClosed))
		}},
		"a session that goes on": {false, func(_ context.Context, trace *farsync.Trace) {
			trace.Session(session(0, farsync.StateConnected, true, nil))
		}},
	} {
		j := &judged{TB: t}
		c.tell(t.Context(), drivertest.CheckTrace(j))
		j.over()
		require.Equal(t, !c.fine, j.failed, name)
	}
}
