package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// manyOpens is how many clients RunOpens opens, eight at a time.
const manyOpens = 200

// RunOpens has callers give up Opens at random moments, and others close a Store twice at once while it is used. In the
// end the service has no session: no session is kept that was opened for a caller that had gone. A short TTL makes the
// test short.
func RunOpens(t *testing.T, open func(ctx context.Context) (*farsync.Store, error), sessions func() int) {
	var all sync.WaitGroup
	places := make(chan struct{}, 8)
	var mu sync.Mutex
	patience, opened := 10*time.Millisecond, 0
	// told has about half of them give up in time, however quick the service is.
	told := func(done bool) {
		mu.Lock()
		defer mu.Unlock()
		if done {
			opened++
			patience -= patience / 10
		} else {
			patience += patience / 10
		}
	}
	for range manyOpens {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			mu.Lock()
			gaveUp := time.AfterFunc(rand.N(patience), cancel)
			mu.Unlock()
			defer gaveUp.Stop()
			store, err := open(ctx)
			told(err == nil)
			if err != nil {
				assert.ErrorIs(t, err, farsync.ErrUnavailable) // given up, or after five seconds of its own
				return
			}
			cancel() // it was of Open alone
			closeTwice(t, store)
		})
	}
	all.Wait()
	t.Logf("%d of %d were not given up, and at last within %v", opened, manyOpens, patience)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for sessions() > 0 {
		require.NoError(t, pause.For(ctx, 10*time.Millisecond), "%d sessions are left", sessions())
	}
}

// closeTwice closes a Store while a call is under way. Both Closes return when it is closed, and the same.
func closeTwice(t *testing.T, store *farsync.Store) {
	var all sync.WaitGroup
	all.Go(func() {
		lease, err := farsync.NewMutex(store, "/opens").Lock(t.Context())
		if err == nil {
			err = lease.Release()
		}
		if err != nil && !errors.Is(err, farsync.ErrUnavailable) {
			assert.ErrorIs(t, err, farsync.ErrClosed)
		}
	})
	errs := make([]error, 2)
	for i := range errs {
		all.Go(func() { errs[i] = store.Close() })
	}
	all.Wait()
	if errs[0] != nil { // on a busy machine the end of the session may not be confirmed in time
		assert.ErrorIs(t, errs[0], farsync.ErrUnavailable) //nolint:testifylint // not in the test's goroutine
	}
	assert.Equal(t, errs[0], errs[1])
}
