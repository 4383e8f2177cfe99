package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

// A mute is a driver whose first attempt to open a session fails with a cause, and whose others are not answered.
type mute struct {
	driver.Service
	attempts atomic.Int32
}

func (m *mute) Open(ctx context.Context, _ time.Duration) (driver.Session, error) {
	if m.attempts.Add(1) == 1 {
		return nil, errors.New("the certificate has expired")
	}
	<-ctx.Done()
	return nil, errors.New("no answer")
}

// The last attempt is mostly cut short, and knows less than those before it.
func TestOpenSaysWhatAnAttemptHasSaid(t *testing.T) {
	for _, within := range []time.Duration{500 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			m := &mute{Service: farsynctest.NewMem().Service("mute")}
			_, err := recipe.Open(ctx, m, recipe.Options{})
			require.ErrorIs(t, err, recipe.ErrUnavailable)
			if within < time.Second {
				require.ErrorContains(t, err, "the certificate has expired")
			} else {
				require.ErrorContains(t, err, "no answer", "an attempt that had its time")
			}
		})
	}
}

// A late is a driver whose first attempt to open a session is not answered, and whose second hears a cause when its time has run out.
type late struct {
	driver.Service
	silent   error // of the first
	attempts int
}

func (l *late) Open(ctx context.Context, _ time.Duration) (driver.Session, error) {
	l.attempts++
	<-ctx.Done()
	if l.attempts == 1 {
		return nil, l.silent
	}
	return nil, fmt.Errorf("%w: the certificate has expired", l.silent)
}

// TestOpenSaysWhatTheAttemptThatWasCutShortHasHeard where those before it have heard nothing: on a busy machine a handshake may take longer
// than a first attempt.
func TestOpenSaysWhatTheAttemptThatWasCutShortHasHeard(t *testing.T) {
	for _, silent := range []error{context.DeadlineExceeded, errors.New("no answer from any of [a b]")} {
		synctest.Test(t, func(t *testing.T) {
			_, err := recipe.Open(t.Context(), &late{Service: farsynctest.NewMem().Service("late"), silent: silent}, recipe.Options{})
			require.ErrorIs(t, err, recipe.ErrUnavailable)
			require.ErrorContains(t, err, "the certificate has expired")
		})
	}
}

// The caller's deadline is how long Open tries, also if it is far.
func TestOpenTriesUntilTheDeadline(t *testing.T) {
	inBubble(t, func(w *world) {
		w.PartitionClient("cut off", true)
		for _, limit := range []time.Duration{time.Second, time.Minute} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(w.Context(), limit)
			_, err := recipe.Open(ctx, w.Service("cut off"), recipe.Options{TTL: ttl})
			cancel()
			require.ErrorIs(w, err, recipe.ErrUnavailable)
			require.Equal(w, limit, time.Since(began))
		}
		began := time.Now()
		_, err := recipe.Open(w.Context(), w.Service("cut off"), recipe.Options{TTL: ttl})
		require.ErrorIs(w, err, recipe.ErrUnavailable)
		require.Equal(w, 5*time.Second, time.Since(began))
		time.AfterFunc(20*time.Second, func() { w.PartitionClient("cut off", false) })
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		s, err := recipe.Open(ctx, w.Service("cut off"), recipe.Options{TTL: ttl})
		require.NoError(w, err)
		require.NoError(w, s.Close())
	})
}

// With the option Late a Store begins without a session, and gets one when the service answers.
func TestOpenLate(t *testing.T) {
	states := make(chan recipe.State, 10)
	options := recipe.Options{TTL: ttl, Late: true, OnState: func(s recipe.State) { states <- s }}
	inBubble(t, func(w *world) {
		w.PartitionClient("late", true)
		s, err := recipe.Open(w.Context(), w.Service("late"), options)
		require.NoError(w, err)
		require.Equal(w, recipe.Lost, <-states)
		require.Equal(w, recipe.Lost, s.State())
		waiting := w.start(s)
		require.False(w, waiting.returned())
		require.ErrorIs(w, w.startFor(s, replaceable).err, recipe.ErrUnavailable)
		fails := func(says string) {
			ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
			defer cancel()
			another := exclusive
			another.Queue += "/another"
			_, err := recipe.Acquire(ctx, s, &another)
			require.ErrorIs(w, err, recipe.ErrUnavailable)
			require.ErrorContains(w, err, "no session with the service: "+says)
		}
		fails("")
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.OpenSession {
				return farsynctest.Refuse(errors.New("wrong password"))
			}
			return farsynctest.Fault{}
		})
		fails("open session: wrong password")
		w.SetFault(nil)
		w.PartitionClient("late", false)
		w.finally(waiting)
		require.Equal(w, recipe.Connected, <-states)
		require.Equal(w, recipe.Connected, s.State())
		w.release(waiting)
		require.NoError(w, s.Close())

		// It may be closed before, and Open may be given less time.
		w.PartitionClient("late", true)
		began := time.Now()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		s, err = recipe.Open(ctx, w.Service("late"), options)
		require.NoError(w, err)
		require.Equal(w, time.Second, time.Since(began))
		require.NoError(w, s.Close())
		require.Equal(w, recipe.Lost, <-states)
		require.Equal(w, time.Second, time.Since(began))
		ctx, cancel = context.WithCancel(w.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = recipe.Open(ctx, w.Service("late"), options)
		require.ErrorIs(w, err, context.Canceled)
		w.PartitionClient("late", false)

		// A service that refuses need not be waited for.
		refused := errors.New("wrong password")
		w.SetFault(func(farsynctest.Op) farsynctest.Fault { return farsynctest.Refuse(refused) })
		_, err = recipe.Open(w.Context(), w.Service("late"), options)
		require.ErrorIs(w, err, refused)
	})
}

// A refusing is a service that cannot be reached until a time.
type refusing struct {
	driver.Service
	until time.Time
}

func (r refusing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if time.Now().Before(r.until) {
		return nil, errors.New("connection refused")
	}
	return r.Service.Open(ctx, ttl)
}

// TestOpenFindsAServiceThatIsBack within seconds, however long it was away.
func TestOpenFindsAServiceThatIsBack(t *testing.T) {
	inBubble(t, func(w *world) {
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		back := time.Now().Add(10 * time.Minute)
		s, err := recipe.Open(ctx, refusing{w.Service("x"), back}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		require.Less(w, time.Since(back), 5*time.Second)
		require.NoError(w, s.Close())
	})
}

// A foreignContext is none of package context's: a child of it is a goroutine until the child is done.
type foreignContext struct {
	context.Context
	done chan struct{}
}

func (c foreignContext) Done() <-chan struct{} { return c.done }

// TestOpenLeavesNothingWithItsContext: the bubble would not end.
func TestOpenLeavesNothingWithItsContext(t *testing.T) {
	inBubble(t, func(w *world) {
		ctx := foreignContext{context.Background(), make(chan struct{})}
		s, err := recipe.Open(ctx, w.Service("x"), recipe.Options{TTL: ttl})
		require.NoError(w, err)
		require.NoError(w, s.Close())
	})
}
