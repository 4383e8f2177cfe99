package locktest

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
)

// OpenMany opens Stores, a few at a time, and has t close them likewise.
func OpenMany(t testing.TB, n int, open func() (*farsync.Store, error)) {
	t.Helper()
	const atOnce = 16
	stores := make([]*farsync.Store, n)
	var opening errgroup.Group
	opening.SetLimit(atOnce)
	for i := range stores {
		opening.Go(func() (err error) {
			stores[i], err = open()
			return err
		})
	}
	err := opening.Wait()
	t.Cleanup(func() {
		var closing errgroup.Group
		closing.SetLimit(atOnce)
		for _, store := range stores {
			if store != nil {
				closing.Go(store.Close)
			}
		}
		require.NoError(t, closing.Wait())
	})
	require.NoError(t, err)
}

// A Growth measures how the tables of a database grow in which locks are taken over and over.
type Growth struct {
	Acquisitions int
	// Take takes a lock of the worker's own so often. Workers take theirs at once.
	Take func(worker, times int) error
	// Between is how often locks are taken between two calls of Tidy.
	Between int
	Tidy    func()
	// Slack is how much they may grow all the same, for what was deleted and not cleaned up yet. No field is a few pages.
	Slack int
	// Size returns how many bytes the tables have, and the largest in words.
	Size func() (bytes int, largest string)
}

// Workers is how many take locks in a Growth.
const Workers = 4

// Run fails t if the tables are larger after all acquisitions than after half of them, by more than a quarter and a few pages.
func (g Growth) Run(t *testing.T) {
	const rounds = 10
	took, half, now := 0, 0, 0
	for round := range rounds {
		for end := g.Acquisitions * (round + 1) / rounds; took < end; {
			times := min(g.Between, end-took)
			var all errgroup.Group
			for worker := range Workers {
				all.Go(func() error { return g.Take(worker, times/Workers) })
			}
			require.NoError(t, all.Wait())
			took += times
			g.Tidy()
		}
		var largest string
		now, largest = g.Size()
		t.Logf("after %d acquisitions: %d KB: %s", took, now>>10, largest)
		if round == rounds/2-1 {
			half = now
		}
	}
	const pages = 128 << 10
	require.LessOrEqual(t, now, half+half/4+cmp.Or(g.Slack, pages), "flat")
}
