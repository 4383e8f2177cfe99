//nolint:forbidigo // time is that of a bubble
package recipe

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A sleeper is a session of which nothing but what was granted is asked, on a host that can be suspended.
type sleeper struct {
	driver.Session
	from  atomic.Pointer[time.Time]
	slept atomic.Int64
}

func (s *sleeper) Granted() (time.Duration, time.Time) { return 10 * time.Second, *s.from.Load() }

func (s *sleeper) Name() string { return "sleeper" }

func (s *sleeper) prove(from time.Time) { s.from.Store(&from) }

func (s *sleeper) suspended() time.Duration { return time.Duration(s.slept.Load()) }

func (s *sleeper) suspend(d time.Duration) { s.slept.Add(int64(d)) }

func asleep(t *testing.T, f func(s *sleeper, in *session)) {
	synctest.Test(t, func(*testing.T) {
		s := &sleeper{}
		s.suspend(time.Hour) // long ago
		s.prove(time.Now())
		life, end := context.WithCancelCause(context.Background())
		in := newSession(life, s, s.suspended, s.suspended())
		defer func() { // also after a failure, or the bubble would not end
			end(ErrClosed)
			in.fail(ErrClosed)
		}()
		f(s, in)
	})
}

func TestASuspendEndsASession(t *testing.T) {
	asleep(t, func(s *sleeper, in *session) {
		time.Sleep(5 * time.Second)
		s.suspend(4500 * time.Millisecond) // of the 9.5 s that there were
		require.ErrorIs(t, in.errNow(), ErrLost, "the one that is asked first sees it")
		require.ErrorIs(t, in.errNow(), errDeadline)
		s.prove(time.Now())
		require.ErrorIs(t, in.errNow(), ErrLost, "it never comes back")
	})
}

// TestHolderWhoAsksAfterASuspend learns of it from the clock: the goroutine that watches the session sleeps for longer.
func TestHolderWhoAsksAfterASuspend(t *testing.T) {
	asleep(t, func(s *sleeper, in *session) {
		gr := &grant{}
		gr.life, gr.end = context.WithCancelCause(in.life)
		gr.place.Store(&place{in: in})
		h := newHold(gr, 0)
		require.NoError(t, h.Err())
		s.suspend(10 * time.Second)
		require.ErrorIs(t, h.Err(), ErrLost)
		require.ErrorIs(t, h.Err(), errDeadline)
	})
}

func TestASuspendEndsASessionUnasked(t *testing.T) {
	asleep(t, func(s *sleeper, in *session) {
		time.Sleep(5*time.Second + time.Millisecond)
		s.suspend(5 * time.Second)
		begun := time.Now()
		<-in.life.Done()
		require.Less(t, time.Since(begun), time.Second)
	})
}

func TestASuspendThatASessionSurvives(t *testing.T) {
	asleep(t, func(s *sleeper, in *session) {
		begun := time.Now()
		require.Equal(t, begun.Add(9500*time.Millisecond), in.until())
		time.Sleep(time.Second)
		s.suspend(3 * time.Second)
		require.Equal(t, begun.Add(6500*time.Millisecond), in.until())
		s.prove(begun.Add(500 * time.Millisecond))
		require.Equal(t, begun.Add(6500*time.Millisecond), in.until(), "it was sent before, and may be as old as the suspend is long")
		time.Sleep(time.Millisecond)
		s.prove(time.Now())
		require.Equal(t, begun.Add(10501*time.Millisecond), in.until(), "what is sent after it counts in full")
		s.suspend(leastSuspend - 1) // noise
		require.Equal(t, begun.Add(10501*time.Millisecond), in.until())
		s.suspend(1)
		require.Equal(t, begun.Add(10491*time.Millisecond), in.until(), "noise does not add up unseen")
		time.Sleep(9490*time.Millisecond - time.Nanosecond)
		require.NoError(t, in.err())
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, in.err(), errDeadline)
	})
}

// A session that was lost may be ended a TTL after its last answer, by the clock of the service, which goes on while the host is suspended.
func TestASuspendCountsForALapsedSession(t *testing.T) {
	asleep(t, func(s *sleeper, in *session) {
		time.Sleep(2 * time.Second)
		in.until()
		require.Equal(t, 8*time.Second, lapsedOf(in).left(), "an answer counts from when it was first seen")
		s.prove(time.Now().Add(-time.Second)) // it was a second on its way
		in.until()
		require.Equal(t, 10*time.Second, lapsedOf(in).left(), "the service may have renewed the session just before it answered")
		time.Sleep(time.Second)
		s.suspend(3 * time.Second)
		one := lapsedOf(in)
		require.Equal(t, 6*time.Second, one.left())
		s.suspend(2 * time.Second)
		require.Equal(t, 4*time.Second, one.left())
		s.suspend(leastSuspend - 1)
		require.Equal(t, 4*time.Second, one.left(), "noise")
		time.Sleep(4 * time.Second)
		require.Zero(t, one.left())
		in.fail(errDeadline)
		s.prove(time.Now())
		in.until()
		require.LessOrEqual(t, lapsedOf(in).left(), time.Duration(0), "an answer to what lay unread")
	})
}

// The host may be suspended while the session is being opened.
func TestASuspendBeforeASession(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		s := &sleeper{}
		s.prove(time.Now())
		before := s.suspended()
		s.suspend(20 * time.Second)
		time.Sleep(time.Millisecond)
		in := newSession(context.Background(), s, s.suspended, before)
		require.ErrorIs(t, in.errNow(), errDeadline)
	})
}
