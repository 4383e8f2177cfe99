package locktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// LooksAgain is the least time after which a waiter looks at its queue although nothing has woken it: a test that took longer
// cannot say what a wake-up costs.
const LooksAgain = 30 * time.Second

// Standing is a driver that knows how many of its watches stand. Once all waiters of a queue have theirs, nothing is sent for them
// before a wake-up, however busy the machine is.
type Standing struct {
	driver.Service
	now    atomic.Int64
	resets atomic.Int64
}

// Resets returns how often an answer was overdue, so that a connection was given up and what was asked on it is asked again. On a
// machine that is busy enough the service is as good as silent.
func (s *Standing) Resets() int64 { return s.resets.Load() }

// Now returns how many of its watches stand.
func (s *Standing) Now() int64 { return s.now.Load() }

// Await waits until n watches stand.
func (s *Standing) Await(t testing.TB, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.now.Load() == int64(n) }, Soon, time.Millisecond)
}

// Open implements driver.Service.
func (s *Standing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := s.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return standingSession{in, s}, nil
}

type standingSession struct {
	driver.Session
	of *Standing
}

// Reset implements driver.Session.
func (s standingSession) Reset() {
	s.of.resets.Add(1)
	s.Session.Reset()
}

// Watch implements driver.Session.
func (s standingSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	var stood bool
	proof, err := s.Session.Watch(ctx, e, on, func() {
		if !stood {
			stood = true
			s.of.now.Add(1)
		}
		stands()
	})
	if stood {
		s.of.now.Add(-1)
	}
	return proof, err
}
