//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

func permits(units, size int64) recipe.Request {
	return recipe.Request{Queue: queue, Kind: driver.Permit, Units: units, Size: size}
}

// declare leaves a queue without entries, of the given size.
func (w *world) declare(s *recipe.Store, size int64) {
	w.Helper()
	w.release(w.granted(w.startFor(s, permits(1, size))))
}

// One that joins behind an entry which declares another size is granted by the old one. The answer that says that the size
// was declared may be lost.
func TestDeclaredAnewWithALostReply(t *testing.T) {
	for _, fault := range []storetest.Fault{storetest.None, storetest.LoseReply, storetest.Late(0)} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			w.declare(a, 3)
			var second *try
			w.SetFault(func(op storetest.Op) storetest.Fault {
				if op.Kind == storetest.SetRegister && second == nil {
					second = &try{}
					second = w.startFor(b, permits(2, 3))
					return fault
				}
				return storetest.None
			})
			first := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, a, permits(1, 1)) })
			time.Sleep(ttl)
			w.settle()
			w.granted(second)
			require.False(w, first.returned(), "2 of 1 units and 1 more are held")
			w.release(second)
			w.release(w.finally(first))
		})
	}
}

// An old server is a driver whose List is answered by a server that is behind the others.
type oldServer struct{ driver.Service }

func (o oldServer) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := o.Service.Open(ctx, ttl)
	return oldSession{in}, err
}

type oldSession struct{ driver.Session }

func (o oldSession) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	v, err := o.Session.List(ctx, queue, limit)
	if len(v.Entries) > 0 {
		v.Entries = v.Entries[:len(v.Entries)-1]
	}
	return v, err
}

// Whether an entry is alone is not for a server to say that is behind the others.
func TestDeclaredAnewNextToAnOldServer(t *testing.T) {
	inBubble(t, func(w *world) {
		b := w.open()
		a, err := recipe.Open(w.Context(), oldServer{w.Service("old")}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, a.Close()) })
		w.declare(b, 3)
		var second *try
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.SetRegister && second == nil {
				second = &try{}
				second = w.startFor(b, permits(2, 3))
			}
			return storetest.None
		})
		first := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, a, permits(1, 1)) })
		time.Sleep(ttl)
		w.settle()
		w.granted(second)
		require.False(w, first.returned(), "3 units are held of a semaphore that has 1")
		w.release(second)
		w.release(w.finally(first))
	})
}

// Of three that join before there is a size, the last declares its own and is granted, and the first declares its own anew.
// The one in between has seen neither.
func TestSizeDeclaredByTheLastAndTheFirst(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.SetRegister { // each joins before any has written; they come in the order c, a, b
				after := map[string]time.Duration{
					"client-1": 2 * time.Millisecond, "client-2": 9 * time.Millisecond, "client-3": time.Millisecond,
				}[op.Client]
				return storetest.Delay(after)
			}
			return storetest.None
		})
		first := w.startFor(a, permits(1, 2))
		second := w.startFor(b, permits(1, 2))
		third := w.startFor(c, permits(2, 5))
		time.Sleep(ttl)
		w.settle()
		w.granted(third)
		require.True(w, !first.returned() && !second.returned(), "4 units are held of a semaphore that has 2")
		w.release(third)
		w.finally(first)
		w.finally(second)
		w.release(first)
		w.release(second)
	})
}

// operator returns what sets the register of the queue by hand.
func (w *world) operator() (set func(value string)) {
	by, err := w.Service("operator").Open(w.Context(), ttl)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, by.Close(context.Background())) })
	return func(value string) {
		r, err := by.Register(w.Context(), queue)
		require.NoError(w, err)
		_, err = by.SetRegister(w.Context(), queue, value, r.Version, driver.Entry{})
		require.NoError(w, err)
	}
}

// Between two looks of a waiter the size was declared anew, and again as it was. Behind it one was granted meanwhile.
func TestSizeDeclaredAnewAndBackBetweenTwoLooks(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		set := w.operator()
		first := w.granted(w.startFor(a, permits(2, 2)))
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.Watch && op.Client == "client-2" {
				return storetest.Delay(time.Second)
			}
			return storetest.None
		})
		second := w.startFor(b, permits(1, 2))
		set("5 5")
		third := w.granted(w.startFor(c, permits(2, 5)))
		set("2 2")
		w.release(first)
		time.Sleep(ttl / 2)
		w.settle()
		require.False(w, second.returned(), "3 units are held of a semaphore that has 2")
		w.release(third)
		w.release(w.finally(second))
	})
}

// A waiter that comes to the head, finds another size there, and declares its own, may not be alone either. Then it joins
// again, as one that has just joined does, and finds the size in use by then.
func TestWaiterDeclaresAnewAndIsNotAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first := w.granted(w.startFor(a, permits(3, 3)))
		second := w.startFor(b, permits(3, 3))
		var third *try
		w.SetFault(func(op storetest.Op) storetest.Fault {
			if op.Kind == storetest.SetRegister && op.Client == "client-2" && third == nil {
				third = &try{}
				third = w.startFor(c, permits(1, 1))
			}
			return storetest.None
		})
		w.operator()("1 1")
		require.NoError(w, first.hold.Release())
		time.Sleep(ttl)
		w.settle()
		w.granted(third)
		require.ErrorIs(w, second.err, recipe.ErrSize)
		w.release(third)
	})
}

// A watch that the service refuses does not end the time that a size is given to change. Nor does it make the Store ask
// again and again.
func TestSizeBehindAStray(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		first := w.granted(w.startFor(b, permits(1, 3)))
		w.AddStray(queue, "stray")
		w.ResetCount()
		var n atomic.Int64
		w.SetFault(func(storetest.Op) storetest.Fault {
			if n.Add(1) > 1000 {
				panic("it spins")
			}
			return storetest.None
		})
		_, err := recipe.Acquire(w.Context(), a, permits(1, 1))
		require.ErrorIs(w, err, recipe.ErrSize)
		require.Less(w, w.Count(), 200)
		time.Sleep(ttl)
		w.settle()
		w.SetFault(nil)
		w.release(first)
		require.Len(w, w.Entries(queue), 1)
		w.Delete(w.Entries(queue)[0].ID)
	})
}
