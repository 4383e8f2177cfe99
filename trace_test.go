package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
)

// A chronicle is what a Trace was told, in words.
type chronicle struct{ locktest.Chronicle }

type callKey struct{ of *chronicle }

// trace returns a Trace that writes down all it is told.
func (c *chronicle) trace() *farsync.Trace {
	calls := 0
	return &farsync.Trace{
		Acquire: func(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
			calls++
			n := calls
			c.Write("%d wants %+v", n, w)
			return context.WithValue(ctx, callKey{c}, n), func(g farsync.TraceResult) { c.Write("%d got %+v", n, g) }
		},
		Wait: func(ctx context.Context, w farsync.TraceCall, b farsync.TraceWait) {
			holder, note := b.Holder(ctx)
			c.Write("%v waits for %v behind %d, local %t, of %q, %q", ctx.Value(callKey{c}), w.Kind, b.Ahead, b.Local, holder, note)
		},
		Ended:   func(e farsync.TraceEnd) { c.Write("ended %+v", e) },
		Session: func(h farsync.TraceSession) { c.Write("session %+v", h) },
		Note: func(ctx context.Context, _ farsync.TraceCall) string {
			return fmt.Sprint("note of ", ctx.Value(callKey{c}))
		},
	}
}

// Every field of what a Trace is told comes from where package recipe has it.
func TestTraceIsToldEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &chronicle{}
		store := farsynctest.NewMem().Open(&farsynctest.MemOptions{Options: farsync.Options{Holder: "h", Name: "n", Trace: c.trace()}})
		synctest.Wait()
		require.Equal(t, []string{
			"session {Store:n Was:unknown State:connected Opened:true TTL:10s RoundTrip:0s Left:9.5s Cause:<nil>}",
		}, c.Take())
		sem := farsync.NewSemaphore(store, "/s", 3)
		first, err := sem.Acquire(t.Context(), 2)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{
			"1 wants {Store:n Path:/s Kind:permit Units:2 Try:false}",
			fmt.Sprintf("1 got {Err:<nil> Token:%v Waited:0s Local:false Rejoined:0}", first.Token()),
		}, c.Take())
		time.AfterFunc(time.Second, func() { _ = first.Release() })
		second, err := sem.Acquire(t.Context(), 2)
		require.NoError(t, err)
		synctest.Wait()
		lines := c.Take()
		require.Len(t, lines, 4)
		require.Equal(t, []string{
			"2 wants {Store:n Path:/s Kind:permit Units:2 Try:false}",
			`2 waits for permit behind 1, local false, of "h", "note of 1"`,
		}, lines[:2])
		require.ElementsMatch(t, []string{
			fmt.Sprintf("ended {TraceCall:{Store:n Path:/s Kind:permit Units:2 Try:false} Token:%v Held:1s Err:released Unconfirmed:<nil>}", first.Token()),
			fmt.Sprintf("2 got {Err:<nil> Token:%v Waited:1s Local:false Rejoined:0}", second.Token()),
		}, lines[2:])
		_, err = sem.TryAcquire(t.Context(), 3)
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.Equal(t, []string{
			"3 wants {Store:n Path:/s Kind:permit Units:3 Try:true}",
			"3 got {Err:" + errors.Unwrap(err).Error() + " Token:0 Waited:0s Local:false Rejoined:0}",
		}, c.Take())
		require.NoError(t, second.Release())
		c.Take()
		require.NoError(t, store.Close())
		require.Equal(t, []string{
			"session {Store:n Was:connected State:lost Opened:false TTL:10s RoundTrip:0s Left:0s Cause:store closed}",
		}, c.Take())
	})
}

func TestTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.Nil(t, farsync.JoinTraces(nil, nil))
		one, two := &chronicle{}, &chronicle{}
		service := farsynctest.NewMem()
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{
			Holder: "both", Trace: farsync.JoinTraces(one.trace(), nil, &farsync.Trace{}, two.trace()),
		}})
		synctest.Wait()
		lease := lock(t, farsync.NewMutex(store, "/a"))
		list, err := store.Participants(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, "note of 1", list[0].Note)
		time.AfterFunc(time.Second, func() { _ = lease.Release() })
		require.NoError(t, lock(t, farsync.NewMutex(store, "/a")).Release())
		require.NoError(t, store.Close())
		lines := one.Take()
		require.Len(t, lines, 9)
		require.Equal(t, lines, two.Take())
	})
}

// The kinds and the states are those of the packages below, by their numbers and their names.
func TestKindsAndStates(t *testing.T) {
	for kind, of := range map[farsync.Kind]driver.Kind{
		farsync.KindForeign: driver.Foreign, farsync.KindExclusive: driver.Exclusive, farsync.KindWrite: driver.Write,
		farsync.KindRead: driver.Read, farsync.KindPermit: driver.Permit, farsync.KindCandidate: driver.Candidate,
	} {
		require.EqualValues(t, of, kind)
		require.Equal(t, of.String(), kind.String())
	}
	for state, of := range map[farsync.State]recipe.State{
		farsync.StateConnected: recipe.Connected, farsync.StateSuspended: recipe.Suspended, farsync.StateLost: recipe.Lost,
		farsync.StateRecovering: recipe.Recovering, 0: 0,
	} {
		require.EqualValues(t, of, state)
		require.Equal(t, of.String(), state.String())
	}
}

// BenchmarkTrace shows what a Trace costs a lock that is free, beside none.
func BenchmarkTrace(b *testing.B) {
	for _, c := range []struct {
		name  string
		trace *farsync.Trace
	}{
		{"none", nil},
		{"all", &farsync.Trace{
			Acquire: func(ctx context.Context, _ farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
				return ctx, func(farsync.TraceResult) {}
			},
			Wait:    func(context.Context, farsync.TraceCall, farsync.TraceWait) {},
			Ended:   func(farsync.TraceEnd) {},
			Session: func(farsync.TraceSession) {},
			Note:    func(context.Context, farsync.TraceCall) string { return "" },
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			locktest.BenchFreePair(b, farsync.Options{Trace: c.trace, Logger: slog.New(slog.DiscardHandler)})
		})
	}
}
