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
