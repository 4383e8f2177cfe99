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

func TestAcquireIsFIFO(t *testing.T) {
	inBubble(t, func(w *world) {
		var tries []*try
		for range 5 {
			tries = append(tries, w.start(w.open()))
		}
		for i, try := range tries {
			w.granted(try)
			for _, later := range tries[i+1:] {
				require.False(w, later.returned())
			}
			w.release(try)
		}
	})
}

func TestCancelledWaiterIsSkipped(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first, second, third := w.start(a), w.start(b), w.start(c)
		second.cancel()
		w.settle()
		require.ErrorIs(w, second.err, context.Canceled)
		require.ErrorContains(w, second.err, `"client-1"`, "the error names the holder")
		require.Len(w, w.Entries(queue), 2)
		require.False(w, third.returned())
		w.release(w.granted(first))
		w.release(w.granted(third))
	})
}

func TestOneReleaseWakesOne(t *testing.T) {
	inBubble(t, func(w *world) {
		const waiters = 200
		stores := make([]*recipe.Store, 10)
		for i := range stores {
			stores[i] = w.open()
		}
		tries := make([]*try, waiters)
		for i := range tries {
			tries[i] = w.start(stores[i%len(stores)])
		}
		for i, try := range tries {
			w.granted(try)
			w.ResetCount()
			w.release(try)
			require.Equal(w, 1, w.Count(), "the delete: the wake-up brought its proof along")
			require.Equal(w, 1, w.Count(farsynctest.Delete))
			if i < waiters-1 {
				require.True(w, tries[i+1].returned())
			}
			if i < waiters-2 {
				require.False(w, tries[i+2].returned())
			}
		}
	})
}

func TestContendedTraffic(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.ResetCount()
		first := w.start(a)
		require.Equal(w, 1, w.Count(), "a free lock is one write")
		require.Equal(w, 1, w.Count(farsynctest.Create))
		second := w.start(b)
		require.Equal(w, 3, w.Count())
		require.Equal(w, 1, w.Count(farsynctest.Watch))
		time.Sleep(time.Second)
		w.release(w.granted(first))
		w.release(w.granted(second))
		require.Zero(w, w.Count(farsynctest.Ahead), "the wake-up brought its proof along")
		require.Equal(w, 5, w.Count())
	})
}

func TestWriterLetsAllReadersIn(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		write := recipe.Request{Queue: queue, Kind: driver.Write, Units: 1}
		read := recipe.Request{Queue: queue, Kind: driver.Read, Units: 1}
		writer := w.granted(w.startFor(a, write))
		var readers []*try
		for range 5 {
			readers = append(readers, w.startFor(b, read))
		}
		second, last := w.startFor(a, write), w.startFor(b, read)
		w.release(writer)
		for _, r := range readers {
			w.granted(r)
			require.False(w, second.returned())
			w.release(r)
		}
		require.False(w, last.returned())
		w.release(w.granted(second))
		w.release(w.granted(last))
	})
}

// The k-th oldest holder of units wakes k waiters. One of them comes in, and the others watch again; the rest is left alone.
func TestReleaseOfAUnitWakesThoseItMayLetIn(t *testing.T) {
	const size = 8
	for k := 1; k <= size; k++ {
		inBubble(t, func(w *world) {
			s := w.open()
			var queued []*try
			for range 8 * size {
				queued = append(queued, w.startFor(s, permits(1, size)))
			}
			w.ResetCount()
			w.release(w.granted(queued[k-1]))
			w.granted(queued[size])
			require.Equal(w, k-1, w.Count(farsynctest.Watch))
			require.Equal(w, k, w.Count(), "the release itself; a wake-up brings its proof along")
			for i, try := range queued {
				if i != k-1 {
					w.release(w.granted(try))
				}
			}
		})
	}
}

func TestPermitsReleasedOutOfOrder(t *testing.T) {
	for leaves := range 3 {
		inBubble(t, func(w *world) {
			s := w.open()
			permit := func(units int64) *try {
				return w.startFor(s, recipe.Request{
					Queue: queue, Kind: driver.Permit, Units: units, Size: 3,
				})
			}
			holders := []*try{permit(1), permit(1), permit(1)}
			waiter, last := permit(1), permit(2)
			w.release(w.granted(holders[leaves]))
			w.granted(waiter)
			require.False(w, last.returned())
			w.release(waiter)
			require.False(w, last.returned())
			for i, h := range holders {
				if i != leaves {
					w.release(h)
				}
			}
			w.release(w.granted(last))
		})
	}
}

// The Campaign of etcd and Curator's InterProcessMutex grant the dead entry.
func TestSessionLostWhileWaiting(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first, second, third := w.start(a), w.start(b), w.start(c)
		old := w.Entries(queue)[1]
		w.Expire(b)
		w.settle()
		// b does not know yet, and is woken before it does.
		w.release(w.granted(first))
		w.granted(third)
		require.False(w, second.returned())
		time.Sleep(time.Minute)
		require.False(w, second.returned(), "it has joined at the tail")
		w.release(third)
		w.granted(second)
		require.Greater(w, token(second.hold), token(third.hold))
		require.NotEqual(w, old.ID, second.hold.Entries()[0].ID)
		require.NoError(w, second.hold.Err())
		w.release(second)
	})
}

// A laggard is a driver whose first Create is answered when its session is over.
type laggard struct {
	driver.Service
	world *world
	made  int
}

func (l *laggard) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := l.Service.Open(ctx, ttl)
	return laggardSession{in, l}, err
}

type laggardSession struct {
	driver.Session
	of *laggard
}

func (s laggardSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	if s.of.made++; s.of.made == 1 {
		s.of.world.PartitionClient("late", true)
		time.Sleep(2 * ttl)
		s.of.world.PartitionClient("late", false)
	}
	return v, err
}

// What an answer shows is of the session in which it was asked for, however late it comes.
func TestAnswerThatOutlivesItsSessionGrantsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		late := &laggard{Service: w.Service("late"), world: w}
		s, err := recipe.Open(w.Context(), late, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		h, err := recipe.Acquire(w.Context(), s, &exclusive)
		require.NoError(w, err)
		require.NoError(w, h.Err(), "it has joined again, in the next session")
		require.Equal(w, 2, late.made)
		require.NoError(w, h.Release())
		require.NoError(w, s.Close())
	})
}

func TestSessionLostWhileWaitingAndNobodyWakesIt(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Expire(b)
		time.Sleep(ttl)
		require.Len(w, w.Entries(queue), 2, "it has joined again although the holder is still there")
		w.release(w.granted(first))
		w.release(w.granted(second))
	})
}

func TestPartitionedWaiterJoinsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Partition(b, true)
		time.Sleep(3 * ttl)
		require.Len(w, w.Entries(queue), 1)
		w.release(w.granted(first))
		time.Sleep(ttl)
		require.False(w, second.returned())
		w.Partition(b, false)
		w.release(w.finally(second))
	})
}

func TestOwnEntryDeletedWhileWaiting(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Delete(w.Entries(queue)[1].ID)
		third := w.start(c)
		w.release(w.granted(first))
		w.granted(third)
		time.Sleep(time.Second)
		require.False(w, second.returned())
		require.Len(w, w.Entries(queue), 2, "it has joined at the tail")
		w.release(third)
		w.release(w.granted(second))
	})
}

// The caller stays.
func TestReplyOfJoinIsLost(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.LoseReply, farsynctest.LoseRequest} {
		inBubble(t, func(w *world) {
			s := w.open()
			w.SetFault(faults(farsynctest.Create, 1, fault))
			try := w.finally(w.start(s))
			require.Len(w, w.Entries(queue), 1)
			require.Equal(w, try.hold.Entries()[0].ID, w.Entries(queue)[0].ID)
			w.release(try)
		})
	}
}

// The caller goes.
func TestReplyOfJoinIsLostAndTheCallerGone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			switch {
			case op.Kind != farsynctest.Create || op.Client != "client-1":
				return farsynctest.None
			case op.Attempt == 0:
				return farsynctest.LoseReply
			default:
				w.Partition(a, true)
				return farsynctest.None
			}
		})
		first := w.start(a)
		time.Sleep(100 * time.Millisecond)
		second := w.start(b)
		began := time.Now()
		first.cancel()
		w.settle()
		require.ErrorIs(w, first.err, context.Canceled)
		require.Equal(w, began, first.at, "at once")
		require.Len(w, w.Entries(queue), 2)
		require.False(w, second.returned())
		w.Partition(a, false)
		w.release(w.finally(second))
		require.Less(w, time.Since(began), ttl/3, "the entry was removed, and did not go with its session")
		require.Empty(w, w.Entries(queue))
	})
}

// A service that throws every client out at once does not want all of them back at once.
func TestJoiningAgainIsLimited(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		first := w.AddForeign(queue, "first")
		w.ResetCount()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch {
				w.Delete(op.Entry)
				time.AfterFunc(time.Millisecond, func() { w.Touch(first) })
			}
			require.Less(w, w.Count(farsynctest.Create), 200)
			return farsynctest.None
		})
		second := w.start(s)
		time.Sleep(time.Minute)
		second.cancel()
		w.settle()
		require.ErrorIs(w, second.err, context.Canceled)
		require.Greater(w, w.Count(farsynctest.Create), 20)
		w.Delete(first)
	})
}

func TestLostEventIsADelay(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch {
				return farsynctest.Silence(true) // it stands, and does not tell
			}
			return farsynctest.None
		})
		first, second := w.start(a), w.start(b)
		w.release(w.granted(first))
		began := time.Now()
		w.release(w.finally(second))
		require.Greater(w, time.Since(began), 25*time.Second)
		require.LessOrEqual(w, time.Since(began), 45*time.Second)
	})
}

// A watch whose request is not answered is begun again after a third of the TTL.
func TestWatchThatDoesNotStandIsBegunAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		var begun []time.Duration
		start := time.Now()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind != farsynctest.Watch || op.Client != "client-2" {
				return farsynctest.None
			}
			begun = append(begun, time.Since(start).Truncate(time.Second))
			if len(begun) < 5 {
				return farsynctest.Silence(false)
			}
			return farsynctest.None
		})
		first := w.granted(w.start(a))
		second := w.start(b)
		time.Sleep(15 * time.Second)
		w.settle()
		require.Equal(w, []time.Duration{0, 3 * time.Second, 6 * time.Second, 10 * time.Second, 13 * time.Second}, begun)
		w.release(first)
		w.release(w.granted(second))
	})
}

func TestSpuriousEventIsNoGrant(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		for range 10 {
			require.True(w, w.Touch(first.hold.Entries()[0].ID))
			w.settle()
			require.False(w, second.returned())
		}
		w.release(first)
		w.release(w.granted(second))
	})
}

func TestStrayIsRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		stray := w.AddStray(queue, "forgotten")
		try := w.start(s)
		w.settle()
		require.True(w, try.returned())
		require.ErrorContains(w, try.err, stray)
		require.Len(w, w.Entries(queue), 1, "its own entry is gone")
		w.Delete(stray)
	})
}

func TestServiceRefusesTheWatch(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.start(a))
		refusal := errors.New("permission denied")
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch {
				return farsynctest.Refuse(refusal)
			}
			return farsynctest.None
		})
		second := w.start(b)
		require.True(w, second.returned())
		require.ErrorIs(w, second.err, refusal)
		require.Len(w, w.Entries(queue), 1)
		w.release(first)
	})
}

func TestStoreIsClosedWhileWaiting(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		require.NoError(w, b.Close())
		w.settle()
		require.Equal(w, recipe.ErrClosed, second.err)
		require.Len(w, w.Entries(queue), 1)
		w.release(w.granted(first))
	})
}

func TestTryAcquire(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.ResetCount()
		h, err := recipe.Acquire(w.Context(), a, new(trying(exclusive)))
		require.NoError(w, err)
		require.Equal(w, 2, w.Count(), "a read and the join")
		w.ResetCount()
		_, err = recipe.Acquire(w.Context(), b, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Equal(w, 1, w.Count())
		require.Equal(w, 1, w.Count(farsynctest.Ahead))
		require.NoError(w, h.Release())
	})
}

func TestTryAcquireComesSecond(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		var first *try
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && first == nil {
				first = &try{} // the next to join is another client
				first = w.start(a)
			}
			return farsynctest.None
		})
		_, err := recipe.Acquire(w.Context(), b, new(trying(exclusive)))
		require.ErrorIs(w, err, recipe.ErrLocked)
		require.Len(w, w.Entries(queue), 1, "nothing is left behind, and the removal was waited for")
		w.release(w.granted(first))
	})
}
