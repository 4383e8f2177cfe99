package locktest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Hooked has the BeforeConnect of a program block or panic, when a test says so.
type Hooked struct {
	blocks, panics atomic.Bool
	goes           chan struct{}
}

// NewHooked returns a Hooked whose calls that block go on when t ends.
func NewHooked(t testing.TB) *Hooked {
	h := &Hooked{goes: make(chan struct{})}
	t.Cleanup(func() { close(h.goes) })
	return h
}

// Call is for BeforeConnect to call first.
func (h *Hooked) Call() {
	if h.panics.Load() {
		panic("a bug")
	}
	if h.blocks.Load() {
		<-h.goes
	}
}

// Block has the calls from now on block, or not.
func (h *Hooked) Block(is bool) { h.blocks.Store(is) }

// RunHooked requires that a BeforeConnect that panics or blocks is as a server that does not answer: calls end with their ctx, and
// after panics the Store goes on. Cut ends its connections, so that others have to be made.
func RunHooked(t *testing.T, h *Hooked, store *farsync.Store, cut func()) {
	const path = "/before"
	require.NoError(t, Lock(t, store, path).Release())
	for _, fails := range []*atomic.Bool{&h.panics, &h.blocks} {
		fails.Store(true)
		var err error
		for err == nil { // a connection may have been about to be made
			cut()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			err = Returns(t, Soon, "Lock", func() error {
				lease, err := farsync.NewMutex(store, path).Lock(ctx)
				if err == nil {
					_ = lease.Release()
				}
				return err
			})
			cancel()
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fails.Store(false)
		if fails == &h.panics {
			require.NoError(t, Lock(t, store, path).Release())
		}
	}
}
