package locktest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// A Hung is a service that hangs for most of a TTL, and goes on.
type Hung struct {
	// Open returns another client with these options, closed by t.
	Open func(t *testing.T, o farsync.Options) *farsync.Store
	// TTL is the holders' TTL, and Long is a TTL that outlasts the hang.
	TTL, Long time.Duration
	// Freeze stops the service, and Resume has it go on.
	Freeze, Resume func()
	// Most is how long the next may wait once the service has gone on, where time is the time of a bubble. A busy machine
	// takes its own time to open sessions anew.
	Most time.Duration
}

// HungTTL is the TTL of holders on real servers.
const HungTTL = 15 * time.Second

// hungHolders is how many holders there are. They renew their sessions at as many moments.
const hungHolders = 16

// RunHung makes sure that nobody waits for what nobody holds. Of holders with a session each, most lose it while the service hangs, for their
// renewals are not answered in time. When the service goes on, those renewals are still in its sockets, and renew what they were sent for. The
// next to lock waits until the time is over for which a session was last known to be kept, and not for another TTL: each that was lost is ended.
func RunHung(t *testing.T, h Hung) {
	ended := &lines{words: "a session that was lost was ended"}
	next := h.Open(t, farsync.Options{TTL: h.Long})
	leases := make([]*farsync.Lease, hungHolders)
	path := func(i int) string { return fmt.Sprint("/hung/", i) }
	busy, idle := context.WithCancel(t.Context())
	defer idle()
	var looks sync.WaitGroup
	for i := range leases {
		store := h.Open(t, farsync.Options{TTL: h.TTL, Logger: slog.New(slog.NewTextHandler(ended, nil))})
		leases[i] = Lock(t, store, path(i))
		// A client that has just used a connection does not ask whether it still stands, and sends the next renewal by it.
		looks.Go(func() {
			for pause.For(busy, 100*time.Millisecond) == nil {
				_, _ = store.Participants(busy, path(i))
			}
		})
		<-time.After(h.TTL / 4 / hungHolders)
	}
	<-time.After(h.TTL / 4) // until all of them have been renewed
	idle()
	looks.Wait()
	h.Freeze()
	// Holders who were to renew soon have lost their sessions by the end of this, a twentieth of the TTL before the
	// sessions would have run out. A session that the server finds run out when it goes on, it may end before it reads on.
	<-time.After(h.TTL * 78 / 100)
	h.Resume()
	resumed := time.Now()
	var all sync.WaitGroup
	waits := make([]time.Duration, hungHolders)
	for i, lease := range leases {
		if lease.Err() == nil { // the last renewal before the hang was late enough
			require.NoError(t, giveBack(lease))
			continue
		}
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
		all.Go(func() {
			after := Lock(t, next, path(i))
			waits[i] = time.Since(resumed)
			if after.Token() <= lease.Token() {
				t.Errorf("token %d after %d", after.Token(), lease.Token())
			}
			if err := giveBack(after); err != nil {
				t.Errorf("the next holder: %v", err)
			}
		})
	}
	all.Wait()
	lost := 0
	for i, wait := range waits {
		if wait > 0 {
			lost++
		}
		if h.Most > 0 && wait > h.Most {
			t.Errorf("holder %d: the next has waited for %v, of a TTL of %v", i, wait, h.TTL)
		}
		waits[i] = wait.Round(time.Millisecond)
	}
	require.Positive(t, lost, "the service has not hung for long enough")
	t.Logf("the next waited for %v after the service went on", waits)
	require.Eventually(t, func() bool { return ended.count() >= lost }, hang, time.Millisecond, "%d were lost", lost)
}

// lines counts the lines of a log that have certain words.
type lines struct {
	words string

	mu sync.Mutex
	n  int
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(line, []byte(l.words))
	return len(line), nil
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}
