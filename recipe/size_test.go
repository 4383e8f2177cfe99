//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

func permits(units, size int64) recipe.Request {
	return recipe.Request{Queue: queue, Kind: driver.Permit, Units: units, Size: size}
}

// declare leaves a queue without entries, of the given size.
func (w *world) declare(s *recipe.Store, size int64) {
	w.Helper()
	w.release(w.granted(w.startFor(s, permits(1, size))))
}

// While a size is declared anew, none that joins is granted by the old one. The answer that says that the size was declared may be lost.
func TestDeclaredAnewWithALostReply(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.None, farsynctest.LoseReply, farsynctest.Late(0)} {
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			w.declare(a, 3)
			var second *try
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.SetRegister && second == nil {
					second = &try{}
					second = w.startFor(b, permits(2, 3))
					return fault
				}
				return farsynctest.None
			})
			first := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, a, new(permits(1, 1))) })
			time.Sleep(ttl)
			w.settle()
			w.granted(first)
			require.True(w, second.returned())
			require.ErrorIs(w, second.err, recipe.ErrSize, "2 of 1 units and 1 more are held")
			w.release(first)
			w.release(w.granted(w.startFor(b, permits(2, 3))))
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

// Whether the head is alone is not for a server to say that is behind the others. One that joined just behind it holds by the old size.
func TestDeclaredAnewNextToAnOldServer(t *testing.T) {
	inBubble(t, func(w *world) {
		b := w.open()
		a, err := recipe.Open(w.Context(), oldServer{w.Service("old")}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, a.Close()) })
		w.declare(b, 3)
		var second *try
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && op.Client == "old" && second == nil && len(w.Entries(queue)) > 0 {
				second = &try{}
				second = w.startFor(b, permits(2, 3))
			}
			return farsynctest.None
		})
		first := w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, a, new(permits(1, 1))) })
		time.Sleep(ttl)
		w.settle()
		w.granted(second)
		require.True(w, first.returned())
		require.ErrorIs(w, first.err, recipe.ErrSize, "3 units are held of a semaphore that has 1")
		w.release(second)
		w.release(w.granted(w.startFor(a, permits(1, 1))))
	})
}

// Of three that join before there is a size, the last declares its own and is granted. The first, which has nothing ahead of it, does not
// declare its own anew while that one holds.
func TestSizeDeclaredByTheLastAndTheFirst(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.SetRegister { // each joins before any has written; they come in the order c, a, b
				after := map[string]time.Duration{
					"client-1": 2 * time.Millisecond, "client-2": 9 * time.Millisecond, "client-3": time.Millisecond,
				}[op.Client]
				return farsynctest.Delay(after)
			}
			return farsynctest.None
		})
		first := w.startFor(a, permits(1, 2))
		second := w.startFor(b, permits(1, 2))
		third := w.startFor(c, permits(2, 5))
		time.Sleep(ttl)
		w.settle()
		w.granted(third)
		for _, other := range []*try{first, second} {
			require.True(w, other.returned())
			require.ErrorIs(w, other.err, recipe.ErrSize, "4 units are held of a semaphore that has 2")
		}
		w.release(third)
		w.SetFault(nil)
		w.release(w.granted(w.startFor(a, permits(1, 2))))
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
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch && op.Client == "client-2" {
				return farsynctest.Delay(time.Second)
			}
			return farsynctest.None
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

// A waiter that finds another size leaves, and declares its own when it comes back to an idle queue. What joined just behind it by the other
// size holds beside it at no time.
func TestWaiterDeclaresAnewAndIsNotAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		first := w.granted(w.startFor(a, permits(3, 3)))
		second := w.startFor(b, permits(3, 3))
		w.operator()("1 1")
		w.settle()
		require.Len(w, w.Entries(queue), 1, "one that may be refused stands in no other's way")
		var third *try
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && op.Client == "client-2" && third == nil && len(w.Entries(queue)) > 0 {
				third = &try{}
				third = w.startFor(c, permits(1, 1))
			}
			return farsynctest.None
		})
		require.NoError(w, first.hold.Release())
		time.Sleep(ttl)
		w.settle()
		w.granted(third)
		require.ErrorIs(w, second.err, recipe.ErrSize)
		w.release(third)
	})
}

// Two of the same new size that come to an idle queue at the same time do not take each other for users of the old one.
func TestSizeDeclaredAnewByMany(t *testing.T) {
	inBubble(t, func(w *world) {
		w.declare(w.open(), 3)
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Watch {
				return farsynctest.None
			}
			return farsynctest.Delay(rand.N(5 * time.Millisecond))
		})
		var tries []*try
		for range 20 {
			s := w.open()
			tries = append(tries, w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, s, new(permits(1, 20))) }))
		}
		for _, t := range tries {
			w.finally(t)
		}
		for _, t := range tries {
			w.release(t)
		}
	})
}

// On a machine that is busy each of their requests takes long. None of them is a user of the old size, so none is refused.
func TestSizeDeclaredAnewByManyThatAreSlow(t *testing.T) {
	inBubble(t, func(w *world) {
		stores := []*recipe.Store{w.open(), w.open(), w.open(), w.open()}
		w.declare(stores[0], 7)
		w.SetFault(func(farsynctest.Op) farsynctest.Fault {
			return farsynctest.Delay(150*time.Millisecond + rand.N(100*time.Millisecond))
		})
		w.declareTogether(stores)
	})
}

// declareTogether has eight callers on these Stores declare another size than before at the same time. All of them get their unit.
func (w *world) declareTogether(stores []*recipe.Store) {
	w.Helper()
	var all []*try
	for i := range 8 {
		all = append(all, w.launch(func(ctx context.Context, t *try) {
			if t.hold, t.err = recipe.Acquire(ctx, stores[i%len(stores)], new(permits(1, 3))); t.err == nil {
				t.err = t.hold.Release()
			}
		}))
	}
	for _, t := range all {
		w.finally(t)
	}
}

// The service becomes slow once some have been refused: none of them is a user of the old size still.
func TestSizeDeclaredAnewWhileTheServiceBecomesSlow(t *testing.T) {
	for _, quick := range []int{10, 20, 30, 40, 60, 80} { // requests
		inBubble(t, func(w *world) {
			stores := []*recipe.Store{w.open(), w.open(), w.open(), w.open()}
			w.declare(stores[0], 7)
			w.ResetCount()
			w.SetFault(func(farsynctest.Op) farsynctest.Fault {
				n := w.Count()
				if n < quick {
					return farsynctest.Delay(time.Duration(1+n%5) * time.Millisecond)
				}
				return farsynctest.Delay(time.Duration(200+n%7*20) * time.Millisecond)
			})
			w.declareTogether(stores)
		})
	}
}

// A call is refused for what it has found in its queue only after a request whose time counts: whatever is about to
// leave needs as long.
func TestGraceFollowsAServiceThatBecomesSlow(t *testing.T) {
	const slow = 300 * time.Millisecond
	for name, row := range map[string]struct {
		head    driver.Kind
		request recipe.Request
		err     error
	}{
		"size": {driver.Permit, permits(1, 3), recipe.ErrSize},
		"kind": {driver.Permit, exclusive, driver.ErrKind},
	} {
		t.Run(name, func(t *testing.T) {
			for _, leaves := range []bool{true, false} {
				inBubble(t, func(w *world) {
					a := w.open()
					w.declare(a, 7)
					head, _ := w.stand("head", row.head)
					began := time.Now()
					asks := w.startFor(a, row.request)
					require.False(w, asks.returned())
					w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
						if op.Client == "client-1" && op.Kind != farsynctest.Renew {
							return farsynctest.Delay(slow)
						}
						return farsynctest.None
					})
					if leaves {
						time.Sleep(2 * time.Second)
						require.NoError(w, head.Close(w.Context()))
						w.release(w.finally(asks))
						return
					}
					<-asks.done
					require.ErrorIs(w, asks.err, row.err)
					require.GreaterOrEqual(w, asks.at.Sub(began), 8*slow)
					require.LessOrEqual(w, asks.at.Sub(began), ttl/3+4*slow, "a third of the TTL, and the last look")
					w.SetFault(nil)
					require.NoError(w, head.Close(w.Context()))
				})
			}
		})
	}
}

// The longer time of a call that is refused ends with its ctx all the same.
func TestGraceOfASlowServiceEndsWithItsContext(t *testing.T) {
	for _, request := range []recipe.Request{permits(1, 3), exclusive} {
		for after := 100 * time.Millisecond; after < ttl/2; after += 100 * time.Millisecond {
			inBubble(t, func(w *world) {
				a := w.open()
				w.declare(a, 7)
				head, _ := w.stand("head", driver.Permit)
				asks := w.startFor(a, request)
				w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
					if op.Client == "client-1" && op.Kind != farsynctest.Renew {
						return farsynctest.Delay(400 * time.Millisecond)
					}
					return farsynctest.None
				})
				time.Sleep(after)
				w.settle()
				gaveUp := time.Now()
				asks.cancel()
				<-asks.done
				require.Error(w, asks.err)
				require.LessOrEqual(w, asks.at.Sub(gaveUp), time.Duration(0), "after %v", after)
				time.Sleep(ttl)
				w.SetFault(nil)
				require.NoError(w, head.Close(w.Context()))
			})
		}
	}
}

// A Resize declares another size only while no entry is in the queue. An entry that joined after it had looked holds by the old size: then
// Resize sets the size that counts, and what the entry declares stays.
func TestResizeDeclaresAnewNextToANewcomer(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.declare(a, 2)
		var other *try
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create && op.Client == "client-1" && other == nil {
				other = &try{}
				other = w.startFor(b, permits(2, 2))
			}
			return farsynctest.None
		})
		w.resize(a, 1, 1, 2)
		w.granted(other)
		w.isSize("2 1")
		w.release(other)
		w.resize(a, 1, 1, 1)
		w.isSize("1 1")
		w.release(w.granted(w.startFor(a, permits(1, 1))))
	})
}

// resize sets a size for a caller who declares another, and makes sure that Resize says what is declared beside it.
func (w *world) resize(s *recipe.Store, declared, size, stays int64) {
	w.Helper()
	now, err := recipe.Queue{Store: s, Path: queue}.Resize(w.Context(), declared, size)
	require.NoError(w, err)
	require.Equal(w, stays, now)
}

// resize is Resize where only the error counts.
func resize(ctx context.Context, s *recipe.Store, declared, size int64) error {
	_, err := recipe.Queue{Store: s, Path: queue}.Resize(ctx, declared, size)
	return err
}

// resizing begins a resize by which that size is declared.
func (w *world) resizing(s *recipe.Store, declared, size int64) *try {
	return w.launch(func(ctx context.Context, t *try) {
		var now int64
		if now, t.err = (recipe.Queue{Store: s, Path: queue}).Resize(ctx, declared, size); t.err == nil {
			assert.Equal(w, declared, now)
		}
	})
}

// isSize makes sure that the register of the queue says so.
func (w *world) isSize(value string) {
	w.Helper()
	in, err := w.Service("reader").Open(w.Context(), ttl)
	require.NoError(w, err)
	r, err := in.Register(w.Context(), queue)
	require.NoError(w, err)
	require.Equal(w, value, r.Value)
	require.NoError(w, in.Close(w.Context()))
}

// At a rollout a client that declares 5 sets the size that counts for the users of 2, whichever answers are lost. They go on declaring 2.
func TestResizeForUsersOfAnotherSize(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.None, farsynctest.LoseReply, farsynctest.Late(0), farsynctest.Late(2)} {
		for _, kind := range []farsynctest.OpKind{farsynctest.Register, farsynctest.Ahead, farsynctest.Watch, farsynctest.SetRegister} {
			inBubble(t, func(w *world) {
				a, b := w.open(), w.open()
				held := w.granted(w.startFor(a, permits(2, 2)))
				waits := w.startFor(a, permits(1, 2))
				w.SetFault(faults(kind, 1, fault))
				began := time.Now()
				w.resize(b, 5, 3, 2)
				require.LessOrEqual(w, time.Since(began), 5*time.Second)
				w.isSize("2 3")
				w.granted(waits)
				w.SetFault(nil)
				time.Sleep(ttl) // and what is late has come
				w.isSize("2 3")
				w.ResetCount()
				w.resize(b, 5, 3, 2)
				require.Zero(w, w.Count(farsynctest.SetRegister, farsynctest.Create), "it is the size that counts")
				require.ErrorIs(w, resize(w.ended(), b, 5, 4), context.Canceled)
				w.isSize("2 3")
				w.release(held)
				w.release(waits)
			})
		}
	}
}

// ended returns a context that has ended.
func (w *world) ended() context.Context {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	return ctx
}

// A Resize whose ctx ends while the users of another size may still be about to leave has set nothing. That is not the service's doing.
func TestResizeThatGivesUpOnUsersOfAnotherSize(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		held := w.granted(w.startFor(a, permits(2, 2)))
		ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := resize(ctx, b, 5, 3)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.NotErrorIs(w, err, recipe.ErrUnavailable)
		require.Equal(w, 500*time.Millisecond, time.Since(began))
		w.isSize("2 2")
		w.release(held)
	})
}

// After a deployment, one client joins and another resizes. Both declare 5, and 2 is what is left of before. Whichever comes first,
// the size that was set is there afterwards.
func TestResizeBesideAnEntryThatDeclaresTheSameAnew(t *testing.T) {
	for _, first := range []string{"client-1", "client-2"} {
		for after := range 24 { // ms, of which each request takes 2
			inBubble(t, func(w *world) {
				a, b := w.open(), w.open()
				w.declare(a, 2)
				w.SetLatency(2 * time.Millisecond)
				joins := func() *try {
					return w.launch(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, a, new(permits(1, 5))) })
				}
				var joined, resized *try
				if first == "client-1" {
					joined = joins()
					time.Sleep(time.Duration(after) * time.Millisecond)
					resized = w.resizing(b, 5, 3)
				} else {
					resized = w.resizing(b, 5, 3)
					time.Sleep(time.Duration(after) * time.Millisecond)
					joined = joins()
				}
				w.finally(joined)
				w.finally(resized)
				w.isSize("5 3")
				w.release(joined)
			})
		}
	}
}

// Two that declare different sizes resize a queue without entries at the same time. Either has been the last: its size is there,
// and it is that of a declaration which it or the other has made, so the next who declares it finds it.
func TestResizesAtTheSameTime(t *testing.T) {
	for after := range 24 { // ms, of which each request takes 2
		inBubble(t, func(w *world) {
			a, b := w.open(), w.open()
			w.declare(a, 2)
			w.SetLatency(2 * time.Millisecond)
			one := w.resizing(a, 5, 3)
			time.Sleep(time.Duration(after) * time.Millisecond)
			other := w.resizing(b, 7, 4)
			w.finally(one)
			w.finally(other)
			w.SetLatency(0)
			require.Less(w, other.at.Sub(one.at), time.Second)
			in, err := w.Service("reader").Open(w.Context(), ttl)
			require.NoError(w, err)
			r, err := in.Register(w.Context(), queue)
			require.NoError(w, err)
			require.Contains(w, []string{"5 3", "7 4"}, r.Value)
			require.NoError(w, in.Close(w.Context()))
			require.Empty(w, w.Entries(queue))
		})
	}
}

// The entry under whose cover a client declares a size is no user. If the client has died, its entry blocks the queue until its session ends.
// A Resize waits for that, and does not ask again and again.
func TestResizeBehindTheCoverOfAnother(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.declare(a, 2)
		other, err := w.Service("other").Open(w.Context(), ttl)
		require.NoError(w, err)
		cover := driver.Entry{Queue: queue, ID: other.NewID(queue, driver.Permit, math.MaxInt64), Kind: driver.Permit, Units: math.MaxInt64, Size: 9}
		_, err = other.Create(w.Context(), cover, 0)
		require.NoError(w, err)
		w.ResetCount()
		began := time.Now()
		resized := w.resizing(b, 5, 3)
		time.Sleep(ttl / 2)
		w.settle()
		require.False(w, resized.returned())
		w.isSize("2 2")
		require.NoError(w, other.Close(w.Context()))
		w.finally(resized)
		require.Equal(w, ttl/2, resized.at.Sub(began))
		require.LessOrEqual(w, w.Count(farsynctest.Register, farsynctest.Ahead, farsynctest.Create, farsynctest.SetRegister), 10)
		w.isSize("5 3")
	})
}

// While the service grants nothing, nothing in the queue tells of a user. Resize waits until that is over, and asks seldom.
func TestResizeWhileNothingIsGranted(t *testing.T) {
	inBubble(t, func(w *world) {
		a, b := w.open(), w.open()
		w.declare(a, 2)
		w.Restart(ttl)
		w.ResetCount()
		began := time.Now()
		w.resize(b, 5, 3, 5)
		require.InDelta(w, ttl, time.Since(began), float64(time.Second))
		require.LessOrEqual(w, w.Count(farsynctest.Register, farsynctest.Ahead, farsynctest.Create, farsynctest.SetRegister), 20)
		w.isSize("5 3")
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
		w.SetFault(func(farsynctest.Op) farsynctest.Fault {
			if n.Add(1) > 1000 {
				panic("it spins")
			}
			return farsynctest.None
		})
		_, err := recipe.Acquire(w.Context(), a, new(permits(1, 1)))
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

// Clients that declare different sizes over a queue that is idle now and then: of those that hold at a time, all have declared the same size,
// and their units are no more than that, whichever messages are slow, lost or late. In every other play another client resizes, for either size
// and never above its own, so no more units than it is declared with are held then either.
func TestSizesAreNeverMixed(t *testing.T) {
	plays := uint64(75)
	if suite.More(t, suite.Model) {
		plays = 300
	}
	for seed := range plays {
		inBubble(t, func(w *world) {
			faults, clients := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			var mu sync.Mutex
			var held, size int64 // of those that hold
			var granted, refused int
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				mu.Lock()
				defer mu.Unlock()
				switch n := faults.IntN(100); {
				case n < 2:
					return farsynctest.LoseReply
				case n < 4:
					return farsynctest.Late(faults.IntN(8))
				case n < 50 && op.Kind != farsynctest.Renew:
					return farsynctest.Delay(time.Duration(faults.IntN(20)) * time.Millisecond)
				default:
					return farsynctest.None
				}
			})
			var all sync.WaitGroup
			if seed%2 == 1 {
				s, own := w.open(), rand.New(rand.NewPCG(seed, clients.Uint64()))
				all.Go(func() {
					for range 6 {
						if err := resize(w.Context(), s, 2+own.Int64N(2), 1+own.Int64N(2)); err != nil {
							w.Errorf("seed %d: %v", seed, err)
						}
						time.Sleep(time.Duration(own.IntN(300)) * time.Millisecond)
					}
				})
			}
			for range 4 {
				s, of := w.open(), int64(2+clients.IntN(2))
				own := rand.New(rand.NewPCG(seed, clients.Uint64()))
				all.Go(func() {
					for range 8 {
						r := permits(1+own.Int64N(2), of)
						if own.IntN(4) == 0 {
							r = trying(r)
						}
						hold, err := recipe.Acquire(w.Context(), s, &r)
						if err != nil {
							expected := errors.Is(err, recipe.ErrSize) || errors.Is(err, recipe.ErrLocked) || seed%2 == 1 && errors.Is(err, recipe.ErrTooLarge)
							assert.True(w, expected, "%v", err)
							mu.Lock()
							refused++
							mu.Unlock()
							time.Sleep(time.Duration(own.IntN(1000)) * time.Millisecond)
							continue
						}
						mu.Lock()
						granted++
						if held == 0 {
							size = of
						}
						held += r.Units
						assert.Equal(w, size, of, "seed %d: they hold beside one another", seed)
						assert.LessOrEqual(w, held, size, "seed %d", seed)
						mu.Unlock()
						time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
						mu.Lock()
						held -= r.Units
						mu.Unlock()
						_ = hold.Release() // in the background, if the answer is lost
						time.Sleep(time.Duration(own.IntN(60)) * time.Millisecond)
					}
				})
			}
			all.Wait()
			require.NotZero(w, granted, "seed %d", seed)
			w.SetFault(nil)
		})
	}
}
