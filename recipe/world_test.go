//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

const (
	queue = "/q"
	ttl   = 10 * time.Second
)

var exclusive = recipe.Request{
	Queue: queue, Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule(),
}

// A world is a service with clients, in a bubble.
type world struct {
	*testing.T
	*storetest.Mem
	clients int
}

// inBubble runs f in a bubble. When f has returned and its clients are closed, nothing may be left: the bubble sees to
// the goroutines.
func inBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Mem: storetest.NewMem()}
		t.Cleanup(func() {
			time.Sleep(3 * ttl) // for sessions whose client could not end them
			entries, sessions, watches := w.Left()
			require.Zero(t, entries, "entries left")
			require.Zero(t, sessions, "sessions left")
			require.Zero(t, watches, "watches left")
		})
		f(w)
	})
}

func (w *world) open() *storetest.MemStore {
	w.clients++
	s := w.Mem.Open(&storetest.MemOptions{TTL: ttl, Holder: fmt.Sprintf("client-%d", w.clients)})
	w.Cleanup(func() {
		w.Partition(s, false)
		require.NoError(w, s.Close())
	})
	return s
}

// settle waits until nothing happens any more at this moment.
func (w *world) settle() { synctest.Wait() }

// A try is an Acquire that is under way.
type try struct {
	done   chan struct{}
	entry  recipe.Entry
	hold   *recipe.Hold
	err    error
	at     time.Time // when it returned
	cancel context.CancelFunc
}

func (t *try) returned() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// start begins an Acquire of s, and returns once it has got as far as it gets.
func (w *world) start(s recipe.Store) *try {
	return w.begin(func(ctx context.Context, t *try) { t.entry, t.err = recipe.Acquire(ctx, s, exclusive) })
}

// startGate is start for a gate.
func (w *world) startGate(g *recipe.Gate) *try {
	return w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(ctx) })
}

func (w *world) begin(acquire func(context.Context, *try)) *try {
	ctx, cancel := context.WithCancel(w.Context())
	t := &try{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer cancel()
		acquire(ctx, t)
		t.at = time.Now()
		close(t.done)
	}()
	w.settle()
	return t
}

// granted requires that the try has succeeded by now.
func (w *world) granted(t *try) *try {
	w.Helper()
	w.settle()
	require.True(w, t.returned(), "it is still waiting")
	require.NoError(w, t.err)
	return t
}

// finally is granted for a try that takes its time.
func (w *world) finally(t *try) *try {
	w.Helper()
	select {
	case <-t.done:
	case <-time.After(time.Hour):
		require.FailNow(w, "it waits for ever")
	}
	require.NoError(w, t.err)
	return t
}

func (w *world) leave(s recipe.Store, e recipe.Entry) {
	w.Helper()
	require.NoError(w, s.Leave(w.Context(), e))
	w.settle()
}

// faults returns a fault function that gives the n-th request of a kind the fault, and all others none.
func faults(kind storetest.OpKind, n int, fault storetest.Fault) func(storetest.Op) storetest.Fault {
	return func(op storetest.Op) storetest.Fault {
		if op.Kind != kind {
			return storetest.None
		}
		n--
		if n == 0 {
			return fault
		}
		return storetest.None
	}
}
