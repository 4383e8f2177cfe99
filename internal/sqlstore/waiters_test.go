package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// woken reports whether a waiter was, since it was asked last.
func woken(in chan struct{}) bool {
	select {
	case <-in:
		return true
	default:
		return false
	}
}

func TestWakeWakesThoseThatWaitForIt(t *testing.T) {
	w := newWaiters()
	one, two, both := w.add([]string{"1"}), w.add([]string{"2"}), w.add([]string{"1", "2"})
	is := func() [3]bool { return [3]bool{woken(one), woken(two), woken(both)} }
	require.Equal(t, [3]bool{}, is())
	w.Wake([]string{"1"})
	require.Equal(t, [3]bool{true, false, true}, is())
	w.Wake([]string{"3", "2"})
	w.Wake([]string{"2"})
	require.Equal(t, [3]bool{false, true, true}, is(), "twice before the look is once")
	require.Equal(t, [3]bool{}, is())
	w.Wake([]string{"3"})
	require.Equal(t, [3]bool{}, is())
	w.Wake(nil)
	require.Equal(t, [3]bool{true, true, true}, is())
	w.Wake([]string{"3", ""})
	require.Equal(t, [3]bool{true, true, true}, is(), "the empty name is all")
	w.remove(one)
	w.Wake(nil)
	require.Equal(t, [3]bool{false, true, true}, is())
	require.Equal(t, []string{"1", "2"}, w.waitedFor())
}

// TestTendPaces: it rests without waiters, begins again with other names, and slows down.
func TestTendPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWaiters()
		type look struct {
			after  time.Duration
			names  []string
			others bool
		}
		var looks []look
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Tend(ctx, 100*time.Millisecond, 150*time.Millisecond, func(names []string, others bool) {
				looks = append(looks, look{time.Since(began), names, others})
			})
		}()
		pass := func(d time.Duration) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
		}
		pass(time.Hour)
		require.Empty(t, looks)

		began = time.Now()
		a := w.add([]string{"a"})
		pass(550 * time.Millisecond)
		require.Equal(t, []look{
			{100 * time.Millisecond, []string{"a"}, true},
			{225 * time.Millisecond, []string{"a"}, false},
			{375 * time.Millisecond, []string{"a"}, false},
			{525 * time.Millisecond, []string{"a"}, false},
		}, looks)
		looks = nil
		b := w.add([]string{"b", "a"})
		pass(300 * time.Millisecond)
		require.Equal(t, []look{
			{675 * time.Millisecond, []string{"a", "b"}, true},
			{800 * time.Millisecond, []string{"a", "b"}, false},
		}, looks)
		w.remove(a)
		w.remove(b)
		looks = nil
		pass(time.Hour)
		require.Empty(t, looks)

		w.remove(w.add([]string{"c"}))
		pass(time.Hour)
		require.Empty(t, looks, "one that has gone soon")
		cancel()
		<-done
	})
}
