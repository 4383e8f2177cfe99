package recipe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// slow is a service that takes its time to set up a watch, and a client that begins anew whenever its connection is reset.
type slow struct {
	driver.Service
	takes time.Duration
	stand atomic.Bool
}

func (s *slow) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	session, err := s.Service.Open(ctx, ttl)
	return &slowSession{Session: session, service: s, resets: make(chan struct{})}, err
}

type slowSession struct {
	driver.Session
	service *slow
	resets  chan struct{}
}

func (s *slowSession) Reset() {
	select {
	case s.resets <- struct{}{}:
	default:
	}
}

func (s *slowSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	select {
	case <-time.After(s.service.takes):
		s.service.stand.Store(true)
		return s.Session.Watch(ctx, e, on, stands)
	case <-s.resets:
		return nil, errors.New("the connection was reset")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A service that is slow to set up watches is given more time with each attempt: with the same time it would have the work of
// all of them again and again.
func TestWatchesOfASlowServiceStandInTheEnd(t *testing.T) {
	inBubble(t, func(w *world) {
		service := &slow{Service: w.Service("slow"), takes: 3 * time.Second}
		s, err := recipe.Open(w.Context(), service, recipe.Options{TTL: time.Minute})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, s.Close()) })
		first := w.granted(w.start(s))
		waiting := w.start(s)
		time.Sleep(10 * time.Second) //nolint:forbidigo // in a bubble
		require.True(w, service.stand.Load())
		w.release(first)
		w.release(w.finally(waiting))
	})
}

// A turning is a service whose entries await their turn, of whom nobody is ever told that it has come.
type turning struct{ driver.Service }

func (o turning) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := o.Service.Open(ctx, ttl)
	return turningSession{in}, err
}

type turningSession struct{ driver.Session }

func (o turningSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := o.Session.Create(ctx, e, attempt)
	v.Turn = err == nil && len(v.Entries) > 1
	return v, err
}

func (o turningSession) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	if on[0].What != driver.Turn {
		return o.Session.Watch(ctx, e, on, stands)
	}
	stands()
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestTurnIsLookedForWithinAMinute, however long the TTL is: those ahead may have died and told nothing.
func TestTurnIsLookedForWithinAMinute(t *testing.T) {
	inBubble(t, func(w *world) {
		ahead := w.open()
		patient, err := recipe.Open(w.Context(), turning{w.Service("patient")}, recipe.Options{TTL: 24 * time.Hour})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, patient.Close()) })
		w.granted(w.start(ahead))
		next := w.start(ahead)
		behind := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, patient, &exclusive) })
		w.settle()
		died := time.Now()
		w.Partition(ahead, true)
		next.cancel()
		w.release(w.finally(behind))
		require.Less(w, time.Since(died), time.Minute)
	})
}
