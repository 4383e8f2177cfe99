//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

func TestStateIsKnownAfterOpen(t *testing.T) {
	inBubble(t, func(w *world) {
		for range 100 {
			s := w.with(recipe.Options{})
			require.Equal(w, recipe.Connected, s.State())
			require.NoError(w, s.Close())
			require.Equal(w, recipe.Lost, s.State())
		}
	})
}

var errHangsUp = errors.New("the client has hung up")

// A hangup is a driver with a client for each session: calls of a session that was dropped find that client closed.
type hangup struct{ driver.Service }

func (h hangup) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := h.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &hangupSession{in, life, end}, nil
}

func (h hangup) Outcome(err error) driver.Outcome {
	if errors.Is(err, errHangsUp) {
		return driver.Closed
	}
	return h.Service.Outcome(err)
}

type hangupSession struct {
	driver.Session
	life context.Context // until it is dropped
	end  context.CancelFunc
}

func (h *hangupSession) Drop() {
	h.end()
	h.Session.Drop()
}

func (h *hangupSession) Close(ctx context.Context) error {
	h.end()
	return h.Session.Close(ctx)
}

func (h *hangupSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	bound, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(h.life, cancel)()
	defer cancel()
	proof, err := h.Session.Watch(bound, e, on, stands)
	if h.life.Err() != nil {
		return nil, errHangsUp
	}
	return proof, err
}

// A call that was under way when its session was dropped says so in one of two ways. Neither ends the Store.
func TestDroppedSessionEndsNoStore(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.open()
		b, err := recipe.Open(w.Context(), hangup{w.Service("b")}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, b.Close()) })
		first := w.granted(w.start(a))
		second := w.start(b)
		w.ExpireClient("b")
		time.Sleep(ttl)
		w.settle()
		require.False(w, second.returned(), "%v", second.err)
		second.cancel()
		w.release(first)
		time.Sleep(time.Second)
		w.release(w.finally(w.start(b)))
	})
}

// A caller that is about to join again is not kept waiting for it.
func TestCloseEndsTheWaitToJoinAgain(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.with(recipe.Options{TTL: ttl})
		holder := w.AddForeign(queue, "other")
		first := w.start(a)
		for range 10 { // its entry goes again and again, and so the pauses grow
			for len(w.Entries(queue)) < 2 {
				time.Sleep(time.Millisecond)
				w.settle()
			}
			w.Delete(w.Entries(queue)[1].ID)
			w.Touch(holder)
			w.settle()
		}
		closed := time.Now()
		require.NoError(w, a.Close())
		<-first.done
		require.Equal(w, recipe.ErrClosed, first.err)
		require.Zero(w, time.Since(closed))
		w.Delete(holder)
	})
}

// From some request on, the client under the driver is closed. The Store is closed then, whatever it was doing, and the
// others go on.
func TestClosedClientClosesTheStore(t *testing.T) {
	for n := range 40 {
		inBubble(t, func(w *world) {
			a, b := w.with(recipe.Options{TTL: ttl, Holder: "client-1"}), w.open()
			var requests atomic.Int64
			w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Client == "client-1" && requests.Add(1) > int64(n) {
					return farsynctest.Fail(driver.Closed, errHangsUp)
				}
				return farsynctest.None
			})
			var all sync.WaitGroup
			for _, s := range []*recipe.Store{a, b} {
				g := newGate(s)
				for range 3 {
					all.Go(func() {
						for range 3 {
							h, err := g.Acquire(w.Context())
							if err != nil {
								assert.True(w, s == a && errors.Is(err, recipe.ErrClosed), "%v", err)
								return
							}
							time.Sleep(time.Second)
							err = h.Release()
							assert.True(w, err == nil || s == a && errors.Is(err, recipe.ErrClosed), "%v", err)
						}
					})
				}
			}
			began := time.Now()
			all.Wait()
			require.Less(w, time.Since(began), 3*ttl)
			_ = a.Close()
			require.ErrorIs(w, resize(w.Context(), a, 1, 1), recipe.ErrClosed)
		})
	}
}

// A renewal whose answer comes later than the next is due counts from when it was sent.
func TestSlowRenewalsKeepTheSession(t *testing.T) {
	inBubble(t, func(w *world) {
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Renew {
				return farsynctest.Delay(3 * time.Second) // a quarter of the TTL is less
			}
			return farsynctest.None
		})
		first := w.granted(w.start(w.open()))
		time.Sleep(time.Minute)
		require.NoError(w, first.hold.Err())
		w.release(first)
	})
}

// TestLateRenewalIsFollowedSoon: the session counts from when the renewal was sent that was answered late, so little is
// left of it. Another quarter of the TTL until the next renewal would be much of that.
func TestLateRenewalIsFollowedSoon(t *testing.T) {
	inBubble(t, func(w *world) {
		var mu sync.Mutex
		var sent []time.Time
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind != farsynctest.Renew {
				return farsynctest.None
			}
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Now())
			if len(sent) == 2 || len(sent) == 3 {
				return farsynctest.Delay(ttl/4 + ttl/25)
			}
			return farsynctest.None
		})
		first := w.granted(w.start(w.open()))
		time.Sleep(2 * ttl)
		mu.Lock()
		between := func(i int) time.Duration { return sent[i].Sub(sent[i-1]) }
		require.GreaterOrEqual(w, len(sent), 5)
		require.Equal(w, ttl/4, between(1))
		require.Equal(w, ttl/4+ttl/20, between(2), "the second was not answered in time")
		require.Equal(w, ttl/20, between(3), "the second was answered late")
		require.Equal(w, ttl/4, between(4))
		mu.Unlock()
		w.release(first)
	})
}

// A lagging is a service whose answers to renewals take so long. A session counts from when the request was sent.
type lagging struct {
	driver.Service
	lag time.Duration
}

func (l lagging) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := l.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	s := &laggingSession{Session: in, lag: l.lag}
	s.ttl, s.from = in.Granted()
	return s, nil
}

type laggingSession struct {
	driver.Session
	lag time.Duration

	mu   sync.Mutex
	ttl  time.Duration
	from time.Time
}

func (s *laggingSession) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

func (s *laggingSession) Renew(ctx context.Context, prove []driver.Entry) error {
	sent := time.Now()
	if err := s.Session.Renew(ctx, prove); err != nil {
		return err
	}
	select {
	case <-time.After(s.lag):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from = sent
	}
	return nil
}

// TestVerySlowRenewalsKeepTheSession: each answer takes two fifths of the TTL. Two answers and a quarter of the TTL
// between them would be more than all of it.
func TestVerySlowRenewalsKeepTheSession(t *testing.T) {
	inBubble(t, func(w *world) {
		s, err := recipe.Open(w.Context(), lagging{w.Service("lagging"), ttl * 2 / 5}, recipe.Options{TTL: ttl})
		require.NoError(w, err)
		first := w.granted(w.start(s))
		time.Sleep(time.Minute)
		require.NoError(w, first.hold.Err())
		w.release(first)
		require.NoError(w, s.Close())
	})
}

// TestCloseByATrace: whoever is told of a loss may have the program end. Functions that the Store calls on its own account cannot be waited for.
func TestCloseByATrace(t *testing.T) {
	for what, trace := range map[string]func(end func()) *recipe.Trace{
		"a session that is lost": func(end func()) *recipe.Trace {
			return &recipe.Trace{Session: func(h recipe.Health) {
				if h.State == recipe.Lost {
					end()
				}
			}}
		},
		"a session that is suspended": func(end func()) *recipe.Trace {
			return &recipe.Trace{Session: func(h recipe.Health) {
				if h.State == recipe.Suspended {
					end()
				}
			}}
		},
		"a lease that is lost": func(end func()) *recipe.Trace {
			return &recipe.Trace{Ended: func(e recipe.End) {
				if errors.Is(e.Err, recipe.ErrLost) {
					end()
				}
			}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(w *world) {
				var s *recipe.Store
				closed := 0
				s = w.with(recipe.Options{TTL: ttl, Trace: trace(func() {
					if closed++; closed == 1 {
						assert.NoError(w, s.Close())
					}
				})})
				held := w.granted(w.startFor(s, exclusive))
				w.Partition(s, true)
				time.Sleep(3 * ttl)
				w.settle()
				require.Positive(w, closed)
				_ = s.Close()
				require.Error(w, held.hold.Err())
			})
		})
	}
	t.Run("a lease whose time is over", func(t *testing.T) {
		inBubble(t, func(w *world) {
			var s *recipe.Store
			s = w.with(recipe.Options{TTL: ttl, Trace: &recipe.Trace{Ended: func(recipe.End) {
				assert.NoError(w, s.Close())
			}}})
			h := w.granted(w.startFor(s, exclusive)).hold
			h.After(time.Second, func() { _ = h.Release() })
			time.Sleep(ttl)
			require.Equal(w, recipe.Lost, s.State())
			require.NoError(w, s.Close())
		})
	})
}

// A program that is of no use without its session may close the Store where it hears of the loss.
func TestCloseByOnState(t *testing.T) {
	inBubble(t, func(w *world) {
		var s *recipe.Store
		closed := make(chan error, 1)
		w.onState = func(state recipe.State) {
			if state == recipe.Lost {
				closed <- s.Close()
				time.Sleep(time.Second) // it is waited for
			}
		}
		s = w.open()
		hold := w.granted(w.start(s)).hold
		w.Expire(s)
		require.NoError(w, <-closed)
		began := time.Now()
		require.NoError(w, s.Close())
		require.Equal(w, time.Second, time.Since(began), "any other Close waits for the hook")
		require.ErrorIs(w, hold.Release(), recipe.ErrLost)
		_, err := recipe.Acquire(w.Context(), s, &exclusive)
		require.ErrorIs(w, err, recipe.ErrClosed)
	})
}

// TestWhoeverHoldsFindsTheStoreConnected, also at once after a session was replaced.
func TestWhoeverHoldsFindsTheStoreConnected(t *testing.T) {
	inBubble(t, func(w *world) {
		s := w.open()
		for range 200 {
			w.Expire(s)
			first, err := recipe.Acquire(w.Context(), s, &exclusive) // finds the session over, and waits for the next
			require.NoError(w, err)
			require.Equal(w, recipe.Connected, s.State())
			require.NoError(w, first.Release())
		}
	})
}

// TestSlowHookIsToldTheLastState, though more came meanwhile than are kept for it, and no state twice in a row.
func TestSlowHookIsToldTheLastState(t *testing.T) {
	inBubble(t, func(w *world) {
		gate := make(chan struct{})
		var told []recipe.State
		w.onState = func(s recipe.State) {
			<-gate
			told = append(told, s)
		}
		s := w.open()
		for _, cut := range slices.Repeat([]bool{true, false}, 22) { // three states each
			w.Partition(s, cut)
			for awaited := map[bool]recipe.State{true: recipe.Lost, false: recipe.Connected}[cut]; s.State() != awaited; {
				time.Sleep(100 * time.Millisecond)
			}
		}
		close(gate)
		w.settle()
		require.Equal(w, s.State(), told[len(told)-1])
		require.Len(w, slices.Compact(slices.Clone(told)), len(told))
	})
}
