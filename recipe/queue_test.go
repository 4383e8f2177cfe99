//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

func TestAcquireIsFIFO(t *testing.T) {
	inBubble(t, func(w *world) {
		var stores []*storetest.MemStore
		var tries []*try
		for range 5 {
			s := w.open()
			stores, tries = append(stores, s), append(tries, w.start(s))
		}
		for i, try := range tries {
			w.granted(try)
			for _, later := range tries[i+1:] {
				require.False(w, later.returned())
			}
			w.leave(stores[i], try.entry)
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
		w.leave(a, w.granted(first).entry)
		w.leave(c, w.granted(third).entry)
	})
}

func TestOneReleaseWakesOne(t *testing.T) {
	inBubble(t, func(w *world) {
		const waiters = 200
		var record storetest.Record
		stores := make([]recipe.Store, 10)
		for i := range stores {
			stores[i] = record.Wrap(w.open(), "")
		}
		tries := make([]*try, waiters)
		for i := range tries {
			tries[i] = w.start(stores[i%len(stores)])
		}
		for i, try := range tries {
			w.granted(try)
			record.Reset()
			w.ResetCount()
			w.leave(stores[i%len(stores)], try.entry)
			if i == waiters-1 {
				break
			}
			require.Equal(w, 1, record.Count(storetest.Blockers))
			require.Equal(w, 1, record.Count(storetest.Wait))
			require.Equal(w, 1, w.Count(storetest.Delete))
			require.Equal(w, 2, w.Count(), "the delete and one read")
			require.True(w, tries[i+1].returned())
		}
	})
}

func TestContendedTraffic(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.ResetCount()
		first := w.start(a)
		require.Equal(w, 1, w.Count(), "a free lock is one write")
		require.Equal(w, 1, w.Count(storetest.Create))
		second := w.start(b)
		require.Equal(w, 3, w.Count())
		require.Equal(w, 1, w.Count(storetest.Watch))
		time.Sleep(time.Second)
		w.leave(a, w.granted(first).entry)
		w.leave(b, w.granted(second).entry)
		require.Equal(w, 1, w.Count(storetest.Read), "after the wake-up")
		require.Equal(w, 6, w.Count())
	})
}

func TestWriterLetsAllReadersIn(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		acquire := func(s recipe.Store, kind recipe.Kind, rule recipe.Rule) *try {
			return w.begin(func(ctx context.Context, t *try) {
				t.entry, t.err = recipe.Acquire(ctx, s, recipe.Request{Queue: queue, Kind: kind, Units: 1, Rule: rule})
			})
		}
		writer := w.granted(acquire(a, recipe.Write, recipe.ExclusiveRule()))
		var readers []*try
		for range 5 {
			readers = append(readers, acquire(b, recipe.Read, recipe.SharedRule()))
		}
		second := acquire(a, recipe.Write, recipe.ExclusiveRule())
		last := acquire(b, recipe.Read, recipe.SharedRule())
		w.leave(a, writer.entry)
		for _, r := range readers {
			w.granted(r)
			require.False(w, second.returned())
			w.leave(b, r.entry)
		}
		require.False(w, last.returned())
		w.leave(a, w.granted(second).entry)
		w.leave(b, w.granted(last).entry)
	})
}

func TestPermitsReleasedOutOfOrder(t *testing.T) {
	for leaves := range 3 {
		inBubble(t, func(w *world) {
			s := w.open()
			permit := func(units int64) *try {
				return w.begin(func(ctx context.Context, t *try) {
					t.entry, t.err = recipe.Acquire(ctx, s, recipe.Request{
						Queue: queue, Kind: recipe.Permit, Units: units, Size: 3, Rule: recipe.UnitsRule(3),
					})
				})
			}
			holders := []*try{permit(1), permit(1), permit(1)}
			waiter, last := permit(1), permit(2)
			w.leave(s, w.granted(holders[leaves]).entry)
			w.granted(waiter)
			require.False(w, last.returned())
			w.leave(s, waiter.entry)
			require.False(w, last.returned())
			for i, h := range holders {
				if i != leaves {
					w.leave(s, h.entry)
				}
			}
			w.leave(s, w.granted(last).entry)
		})
	}
}

// C3: etcd's Campaign and Curator's InterProcessMutex grant the dead entry.
func TestSessionLostWhileWaiting(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first, second, third := w.start(a), w.start(b), w.start(c)
		old := w.Entries(queue)[1]
		w.Expire(b)
		w.settle()
		// b does not know yet, and is woken before it does.
		w.leave(a, w.granted(first).entry)
		w.granted(third)
		require.False(w, second.returned())
		time.Sleep(time.Minute)
		require.False(w, second.returned(), "it has joined at the tail")
		w.leave(c, third.entry)
		w.granted(second)
		require.Greater(w, second.entry.Revision, third.entry.Revision)
		require.NotEqual(w, old.ID, second.entry.ID)
		require.NoError(w, second.entry.Session.Err())
		w.leave(b, second.entry)
	})
}

func TestSessionLostWhileWaitingAndNobodyWakesIt(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Expire(b)
		time.Sleep(ttl)
		require.Len(w, w.Entries(queue), 2, "it has joined again although the holder is still there")
		w.leave(a, w.granted(first).entry)
		w.leave(b, w.granted(second).entry)
	})
}

func TestPartitionedWaiterJoinsAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Partition(b, true)
		time.Sleep(3 * ttl)
		require.Len(w, w.Entries(queue), 1)
		w.leave(a, w.granted(first).entry)
		time.Sleep(ttl)
		require.False(w, second.returned())
		w.Partition(b, false)
		w.leave(b, w.finally(second).entry)
	})
}

func TestOwnEntryDeletedWhileWaiting(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first, second := w.start(a), w.start(b)
		w.Delete(w.Entries(queue)[1].ID)
		third := w.start(c)
		w.leave(a, w.granted(first).entry)
		w.granted(third)
		time.Sleep(time.Second)
		require.False(w, second.returned())
		require.Len(w, w.Entries(queue), 2, "it has joined at the tail")
		w.leave(c, third.entry)
		w.leave(b, w.granted(second).entry)
	})
}

// C1, the caller stays.
func TestReplyOfJoinIsLost(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.LoseReply, storetest.LoseRequest} {
		inBubble(t, func(w *world) {
			s := w.open()
			w.SetFault(faults(storetest.Create, 1, fault))
			try := w.finally(w.start(s))
			require.Len(w, w.Entries(queue), 1)
			require.Equal(w, try.entry.ID, w.Entries(queue)[0].ID)
			w.leave(s, try.entry)
		})
	}
}

// C1, the caller goes.
func TestReplyOfJoinIsLostAndTheCallerGone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.Create && op.Client == "client-1" {
				w.Partition(a, true)
				return storetest.LoseReply
			}
			return storetest.None
		})
		first := w.start(a)
		second := w.start(b)
		began := time.Now()
		first.cancel()
		w.settle()
		require.ErrorIs(w, first.err, context.Canceled)
		require.Equal(w, began, first.at, "at once")
		require.Len(w, w.Entries(queue), 2)
		require.False(w, second.returned())
		w.Partition(a, false)
		w.leave(b, w.finally(second).entry)
		require.Less(w, time.Since(began), ttl/3, "the entry was removed, and did not go with its session")
		require.Empty(w, w.Entries(queue))
	})
}

// A service that throws everybody out at once does not want everybody back at once.
func TestJoiningAgainIsLimited(t *testing.T) {
	inBubble(t, func(w *world) {
		var record storetest.Record
		hostile := storetest.Inject(record.Wrap(w.open(), ""), storetest.InjectorFunc(
			func(_ context.Context, op storetest.Op) error {
				if op.Kind == storetest.Join && op.After {
					w.Delete(w.Entries(queue)[1].ID)
					time.AfterFunc(time.Millisecond, func() { w.Touch(w.Entries(queue)[0].ID) })
				}
				require.Less(w, record.Count(storetest.Join), 200)
				return nil
			}))
		first := w.AddForeign(queue, "first")
		second := w.start(hostile)
		time.Sleep(time.Minute)
		second.cancel()
		w.settle()
		require.ErrorIs(w, second.err, context.Canceled)
		require.Greater(w, record.Count(storetest.Join), 20)
		w.Delete(first)
	})
}

// C12
func TestLostEventIsADelay(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		deaf := storetest.Inject(b, storetest.InjectorFunc(func(ctx context.Context, op storetest.Op) error {
			if op.Kind == storetest.Wait && !op.After {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}))
		first, second := w.start(a), w.start(deaf)
		w.leave(a, w.granted(first).entry)
		began := time.Now()
		w.leave(b, w.finally(second).entry)
		require.LessOrEqual(w, time.Since(began), 45*time.Second)
	})
}

// C11
func TestSpuriousEventIsNoGrant(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first, second := w.start(a), w.start(b)
		for range 10 {
			require.True(w, w.Touch(first.entry.ID))
			w.settle()
			require.False(w, second.returned())
		}
		w.leave(a, first.entry)
		w.leave(b, w.granted(second).entry)
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
		second := w.start(storetest.Inject(b, storetest.InjectorFunc(func(_ context.Context, op storetest.Op) error {
			if op.Kind == storetest.Wait {
				return refusal
			}
			return nil
		})))
		require.True(w, second.returned())
		require.ErrorIs(w, second.err, refusal)
		require.Len(w, w.Entries(queue), 1)
		w.leave(a, first.entry)
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
		w.leave(a, w.granted(first).entry)
	})
}

func TestTryAcquire(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.ResetCount()
		e, err := recipe.TryAcquire(w.Context(), a, exclusive)
		require.NoError(w, err)
		require.Equal(w, 2, w.Count(), "a read and the join")
		w.ResetCount()
		_, err = recipe.TryAcquire(w.Context(), b, exclusive)
		require.Equal(w, recipe.ErrLocked, err)
		require.Equal(w, 1, w.Count())
		require.Equal(w, 1, w.Count(storetest.Read))
		w.leave(a, e)
	})
}

func TestTryAcquireComesSecond(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		var first *try
		late := storetest.Inject(b, storetest.InjectorFunc(func(_ context.Context, op storetest.Op) error {
			if op.Kind == storetest.Peek && op.After {
				first = w.begin(func(ctx context.Context, t *try) { t.entry, t.err = recipe.Acquire(ctx, a, exclusive) })
			}
			return nil
		}))
		_, err := recipe.TryAcquire(w.Context(), late, exclusive)
		require.Equal(w, recipe.ErrLocked, err)
		require.Len(w, w.Entries(queue), 1, "nothing is left behind, and the removal was waited for")
		w.leave(a, w.granted(first).entry)
	})
}
