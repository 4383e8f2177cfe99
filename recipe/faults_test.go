//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/recipe"
)

// A mishap is what befalls the client that sends a request, at that moment.
type mishap struct {
	name string
	// early: it takes away what a holder has reason to believe it has, so that only tokens keep holders apart.
	early  bool
	befall func(w *world, s *recipe.Store) farsynctest.Fault
}

var mishaps = []mishap{
	{"lose the request", false, func(*world, *recipe.Store) farsynctest.Fault { return farsynctest.LoseRequest }},
	{"lose the reply", false, func(*world, *recipe.Store) farsynctest.Fault { return farsynctest.LoseReply }},
	{"late", false, func(*world, *recipe.Store) farsynctest.Fault { return farsynctest.Late(5) }},
	{"silence", false, func(*world, *recipe.Store) farsynctest.Fault { return farsynctest.Silence(true) }},
	{"expire", true, func(w *world, s *recipe.Store) farsynctest.Fault {
		w.Expire(s)
		return farsynctest.None
	}},
	{"delete the first entry", true, func(w *world, _ *recipe.Store) farsynctest.Fault {
		if list := w.Entries(queue); len(list) > 0 {
			w.Delete(list[0].ID)
		}
		return farsynctest.None
	}},
	{"delete the last entry", true, func(w *world, _ *recipe.Store) farsynctest.Fault {
		if list := w.Entries(queue); len(list) > 0 {
			w.Delete(list[len(list)-1].ID)
		}
		return farsynctest.LoseReply
	}},
	{"cut off for two TTL", false, func(w *world, s *recipe.Store) farsynctest.Fault {
		w.Partition(s, true)
		time.AfterFunc(2*ttl, func() { w.Partition(s, false) })
		return farsynctest.LoseReply
	}},
}

// A placement is a mishap at the n-th request, counted from 0.
type placement struct {
	at int
	mishap
}

func (p placement) String() string { return fmt.Sprintf("%s at %d", p.name, p.at) }

// contend has three clients lock twice each, with the mishaps as placed, and returns how many requests that took.
func contend(t *testing.T, placed ...placement) int {
	t.Helper()
	var requests int
	inBubble(t, func(w *world) {
		r := resource{w: w, exact: true}
		for _, p := range placed {
			r.exact = r.exact && !p.early
		}
		stores := map[string]*recipe.Store{}
		for i := range 3 {
			stores[fmt.Sprintf("client-%d", i+1)] = w.open()
		}
		var mu sync.Mutex
		w.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			mu.Lock()
			now := requests
			requests++
			mu.Unlock()
			for _, p := range placed {
				if p.at == now {
					return p.befall(w, stores[op.Client])
				}
			}
			return farsynctest.None
		})
		var all sync.WaitGroup
		for _, s := range stores {
			all.Go(func() {
				g := newGate(s)
				for range 2 {
					h, err := g.Acquire(w.Context())
					if err != nil {
						w.Error(err)
						return
					}
					r.use(h, time.Second)
					if err := h.Release(); err != nil && len(placed) == 0 {
						w.Error(err)
					}
				}
			})
		}
		began := time.Now()
		all.Wait()
		require.Less(w, time.Since(began), 10*ttl, "everybody's turn comes")
		time.Sleep(ttl)
		require.Empty(w, w.Entries(queue))
		w.SetFault(nil)
	})
	if t.Failed() {
		t.Fatal(placed)
	}
	return requests
}

// requestsOf is how many requests the scenario takes when nothing goes wrong. What a mishap adds are repeats of these.
func requestsOf(t *testing.T) int {
	t.Helper()
	n := contend(t)
	t.Log(n, "requests")
	require.Positive(t, n)
	return n
}

func TestEveryPlacementOfOneFault(t *testing.T) {
	for at := range requestsOf(t) {
		for _, m := range mishaps {
			contend(t, placement{at, m})
		}
	}
}

func TestPlacementsOfTwoFaults(t *testing.T) {
	// make test has the same eightieth each time; make long has all.
	all, chosen := suite.More(t, suite.Model), rand.New(rand.NewPCG(1, 1))
	n := requestsOf(t)
	for at := range n {
		for _, m := range mishaps {
			for then := at + 1; then < n+2; then++ {
				for _, m2 := range mishaps {
					if all || chosen.IntN(80) == 0 {
						contend(t, placement{at, m}, placement{then, m2})
					}
				}
			}
		}
	}
}
