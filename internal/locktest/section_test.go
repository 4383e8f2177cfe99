package locktest_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

// A verdict is a test that fails without consequences.
type verdict struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errors = append(v.errors, fmt.Sprintf(format, args...))
}

// An ending is a lease that ends when err is set.
type ending struct{ err error }

func (e *ending) Err() error { return e.err }

func TestSectionCountsWhatIsHeldInside(t *testing.T) {
	for _, test := range []struct {
		name  string
		room  int64
		enter func(s *locktest.Section)
		finds bool
	}{
		{"one after the other", 1, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)()
			s.Enter(&ending{}, 1)()
		}, false},
		{"two at once", 1, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)
			s.Enter(&ending{}, 1)
		}, true},
		{"two without leases", 1, func(s *locktest.Section) {
			s.Enter(nil, 1)
			s.Enter(nil, 1)
		}, true},
		{"after a loss", 1, func(s *locktest.Section) {
			lost := &ending{}
			s.Enter(lost, 1)
			lost.err = errors.New("lost")
			s.Enter(&ending{}, 1)
		}, false},
		{"lost on entry", 1, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)
			s.Enter(&ending{errors.New("lost")}, 1)
		}, false},
		{"lost on entry, and one more", 1, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)
			s.Enter(&ending{errors.New("lost")}, 1)
			s.Enter(&ending{}, 1)
		}, true},
		{"readers", 8, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)
			s.Enter(&ending{}, 1)
		}, false},
		{"a writer beside a reader", 8, func(s *locktest.Section) {
			s.Enter(&ending{}, 1)
			s.Enter(&ending{}, 8)
		}, true},
		{"a reader beside a writer", 8, func(s *locktest.Section) {
			s.Enter(&ending{}, 8)
			s.Enter(&ending{}, 1)
		}, true},
		{"all units", 5, func(s *locktest.Section) {
			s.Enter(&ending{}, 2)
			s.Enter(&ending{}, 3)
		}, false},
		{"one unit too many", 5, func(s *locktest.Section) {
			s.Enter(&ending{}, 2)
			s.Enter(&ending{}, 3)
			s.Enter(&ending{}, 1)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := &verdict{TB: t}
			test.enter(locktest.NewSection(v, test.room))
			require.Equal(t, test.finds, len(v.errors) == 1, v.errors)
		})
	}
}

// TestSectionFindsALockThatDoesNotWait shows that a Section lasts long enough to see what a broken lock does: one of three
// clients locks another path, so that it does not wait for the others.
func TestSectionFindsALockThatDoesNotWait(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			service := farsynctest.NewMem()
			service.SetLatency(100 * time.Microsecond)
			v := &verdict{TB: t}
			section := locktest.NewSection(v, 1)
			var all sync.WaitGroup
			for i := range 3 {
				client := service.Open(nil)
				defer client.Close()
				path := "/section"
				if broken && i == 0 {
					path = "/elsewhere"
				}
				mu := farsync.NewMutex(client, path)
				all.Go(func() {
					for range 10 {
						lease, err := mu.Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						section.Visit(t.Context(), lease, 1)
						_ = lease.Release()
					}
				})
			}
			all.Wait()
			visits, most := section.Visits()
			require.Equal(t, 30, visits)
			require.Equal(t, broken, most > 1)
			require.Equal(t, broken, len(v.errors) > 0, v.errors)
		})
	}
}
