//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/recipe"
)

const (
	queue = "/q"
	ttl   = 10 * time.Second
)

var exclusive = recipe.Request{
	Queue: queue, Kind: driver.Exclusive, Units: 1,
}

// A gate makes one request on a Store, through a Gate.
type gate struct {
	store   *recipe.Store
	request recipe.Request
}

func gateFor(s *recipe.Store, r recipe.Request) gate {
	r.Line = true
	return gate{s, r}
}

func (g gate) Acquire(ctx context.Context) (*recipe.Hold, error) {
	return recipe.Acquire(ctx, g.store, &g.request)
}

func (g gate) TryAcquire(ctx context.Context) (*recipe.Hold, error) {
	return recipe.Acquire(ctx, g.store, new(trying(g.request)))
}

// trying returns the request without the wait for others.
func trying(r recipe.Request) recipe.Request {
	r.Try = true
	return r
}

// words are what an entry says.
type words struct {
	holder string
	under  []string
	note   string
}

func said(e driver.Entry) words {
	holder, under, note := recipe.WordsOf(e)
	return words{holder, under, note}
}

// A world is a service with clients, in a bubble.
type world struct {
	*testing.T
	*farsynctest.Mem
	clients int
	names   map[*recipe.Store]string // of the clients
	onState func(recipe.State)       // of the clients to be opened
}

// inBubble runs f in a bubble. When f has returned and its clients are closed, nothing may be left: the bubble sees to
// the goroutines.
func inBubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Mem: farsynctest.NewMem(), names: map[*recipe.Store]string{}}
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

func (w *world) open() *recipe.Store {
	w.clients++
	s := w.with(recipe.Options{TTL: ttl, Holder: fmt.Sprintf("client-%d", w.clients), OnState: w.onState})
	w.Cleanup(func() {
		w.Partition(s, false)
		require.NoError(w, s.Close())
	})
	return s
}

// with opens a Store with other options. The client has the name of the Holder, with a number added if another has that. The caller
// closes it.
func (w *world) with(o recipe.Options) *recipe.Store {
	first := cmp.Or(o.Holder, "mem")
	name := first
	for n := 2; slices.Contains(slices.Collect(maps.Values(w.names)), name); n++ {
		name = fmt.Sprintf("%s-%d", first, n)
	}
	s, err := recipe.Open(w.Context(), w.Service(name), o)
	require.NoError(w, err)
	w.names[s] = name
	return s
}

// Expire ends the session of a Store at the service.
func (w *world) Expire(s *recipe.Store) { w.ExpireClient(w.name(s)) }

// Partition cuts a Store off from the service, or joins it again.
func (w *world) Partition(s *recipe.Store, cut bool) { w.PartitionClient(w.name(s), cut) }

func (w *world) name(s *recipe.Store) string {
	name, ok := w.names[s]
	require.True(w, ok, "a Store that with has not opened")
	return name
}

// settle waits until nothing happens any more at this moment.
func (w *world) settle() { synctest.Wait() }

// A try is an Acquire that is under way.
type try struct {
	done   chan struct{}
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
func (w *world) start(s *recipe.Store) *try { return w.startFor(s, exclusive) }

// startFor is start for another request.
func (w *world) startFor(s *recipe.Store, r recipe.Request) *try {
	return w.begin(func(ctx context.Context, t *try) { t.hold, t.err = recipe.Acquire(ctx, s, &r) })
}

// startGate is start for a gate.
func (w *world) startGate(g gate) *try {
	return w.begin(func(ctx context.Context, t *try) { t.hold, t.err = g.Acquire(ctx) })
}

func (w *world) begin(acquire func(context.Context, *try)) *try {
	t := w.launch(acquire)
	w.settle()
	return t
}

// launch is begin for a caller that lets the others get on by itself.
func (w *world) launch(acquire func(context.Context, *try)) *try {
	ctx, cancel := context.WithCancel(w.Context())
	t := &try{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer cancel()
		acquire(ctx, t)
		t.at = time.Now()
		close(t.done)
	}()
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

func (w *world) release(t *try) {
	w.Helper()
	require.NoError(w, t.hold.Release())
	w.settle()
}

// faults returns a fault function that gives the n-th request of a kind the fault, and all others none.
func faults(kind farsynctest.OpKind, n int64, fault farsynctest.Fault) func(farsynctest.Op) farsynctest.Fault {
	var requests atomic.Int64 // of several Stores, and of what they do in the background
	return func(op farsynctest.Op) farsynctest.Fault {
		if op.Kind != kind {
			return farsynctest.None
		}
		if requests.Add(1) == n {
			return fault
		}
		return farsynctest.None
	}
}
