package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
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
	want := recipe.Want{Path: "/q", Kind: driver.Exclusive, Units: 1}
	tries := want
	tries.Try = true
	end := recipe.End{Want: want, Token: 256, Err: recipe.ErrReleased}
	session := func(was, is recipe.State, opened bool, cause error) recipe.Health {
		return recipe.Health{Was: was, State: is, Opened: opened, TTL: time.Second, Cause: cause}
	}
	for name, c := range map[string]struct {
		fine bool
		tell func(ctx context.Context, trace *recipe.Trace)
	}{
		"a lock": {true, func(ctx context.Context, trace *recipe.Trace) {
			trace.Session(session(0, recipe.Connected, true, nil))
			ctx, got := trace.Acquire(ctx, want)
			trace.Note(ctx, want)
			trace.Wait(ctx, want, recipe.Behind{Ahead: 1})
			got(recipe.Got{Token: 256})
			trace.Ended(end)
			trace.Session(session(recipe.Connected, recipe.Suspended, false, context.Canceled))
			trace.Session(session(recipe.Suspended, recipe.Lost, false, recipe.ErrClosed))
		}},
		"a call that does not end":    {false, func(ctx context.Context, trace *recipe.Trace) { trace.Acquire(ctx, want) }},
		"an end of what was not held": {false, func(_ context.Context, trace *recipe.Trace) { trace.Ended(end) }},
		"a hold that does not end": {false, func(ctx context.Context, trace *recipe.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(recipe.Got{Token: 256})
		}},
		"a hold that ends for no reason": {false, func(ctx context.Context, trace *recipe.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(recipe.Got{Token: 256})
			trace.Ended(recipe.End{Want: want, Token: 256, Err: context.Canceled})
		}},
		"a call that ends twice": {false, func(ctx context.Context, trace *recipe.Trace) {
			_, got := trace.Acquire(ctx, want)
			got(recipe.Got{Err: errors.New("no")})
			got(recipe.Got{Err: errors.New("no")})
		}},
		"a wait of no call": {false, func(ctx context.Context, trace *recipe.Trace) { trace.Wait(ctx, want, recipe.Behind{Ahead: 1}) }},
		"a try that waits": {false, func(ctx context.Context, trace *recipe.Trace) {
			ctx, got := trace.Acquire(ctx, tries)
			trace.Note(ctx, tries)
			trace.Wait(ctx, tries, recipe.Behind{Ahead: 1})
			got(recipe.Got{Err: recipe.ErrLocked})
		}},
		"a session that leaps": {false, func(_ context.Context, trace *recipe.Trace) {
			trace.Session(session(0, recipe.Suspended, false, context.Canceled))
			trace.Session(session(recipe.Suspended, recipe.Lost, false, recipe.ErrClosed))
		}},
		"a session that goes on": {false, func(_ context.Context, trace *recipe.Trace) {
			trace.Session(session(0, recipe.Connected, true, nil))
		}},
	} {
		j := &judged{TB: t}
		c.tell(t.Context(), storetest.CheckTrace(j))
		j.over()
		require.Equal(t, !c.fine, j.failed, name)
	}
}
