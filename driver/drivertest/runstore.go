package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

// RunStore holds the Store to its promises, in bubbles over Mem. It has clients play a number of short plays. Of all placements of one
// fault it tries every one if single is 1, one in three if it is 3, and of all placements of two faults one in double, or none if that is
// 0. Of a play that takes long it tries fewer. With -short these are the same each time, else others by a seed that is logged.
//
// Whatever goes wrong, two exclusive holders are never at work at once, tokens increase, everything that waits is served,
// nothing is left when all have released, and then the lock is free.
//
// With Go 1.26 and the race detector a test binary with bubbles may die of SIGSEGV in the runtime, with no word of a test: run it with
// GOMAXPROCS=1, or with Go 1.27.
func RunStore(t *testing.T, single, double int) {
	t.Helper()
	seed := uint64(1)
	if !testing.Short() {
		seed = rand.Uint64()
	}
	t.Log("seed", seed)
	chosen := rand.New(rand.NewPCG(seed, 0))
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			requests := p.perform(t)
			t.Log(requests, "requests")
			sparse := max(dear[p.name], 1)
			single, double := max(single, 1)*sparse, double*sparse
			for at := range requests {
				for _, m := range mishaps {
					if chosen.IntN(single) == 0 {
						p.perform(t, placement{at, m})
					}
				}
			}
			if double == 0 {
				return
			}
			for at := range requests {
				for then := at + 1; then < requests+2; then++ {
					for _, m := range mishaps {
						for _, m2 := range mishaps {
							if chosen.IntN(double) == 0 {
								p.perform(t, placement{at, m}, placement{then, m2})
							}
						}
					}
				}
			}
		})
	}
}

// A play is what some clients do. They start together, and each returns when it has released everything.
type play struct {
	name    string
	clients []func(*actor) error
}

// A mishap is what befalls a request.
type mishap struct {
	name string
	// early says that it takes away what a holder has reason to believe it has, so that only tokens keep holders apart.
	early  bool
	befall func(s *stage, op farsynctest.Op) farsynctest.Fault
}

func always(f farsynctest.Fault) func(*stage, farsynctest.Op) farsynctest.Fault {
	return func(*stage, farsynctest.Op) farsynctest.Fault { return f }
}

const playTTL = 10 * time.Second

var errRefusal = errors.New("no room")

var mishaps = []mishap{
	{"lose the request", false, always(farsynctest.LoseRequest)},
	{"lose the reply", false, always(farsynctest.LoseReply)},
	{"late by one", false, always(farsynctest.Late(1))},
	{"late by three", false, always(farsynctest.Late(3))},
	{"late by nine", false, always(farsynctest.Late(9))},
	{"refuse", false, always(farsynctest.Refuse(errRefusal))},
	{"delay", false, always(farsynctest.Delay(2 * time.Second))}, // longer than a first attempt
	{"silence", false, always(farsynctest.Silence(false))},
	{"silence after", false, always(farsynctest.Silence(true))},
	{"lose the reply, then refuse", false, thenRefuse(farsynctest.LoseReply)},
	{"late by three, then refuse", false, thenRefuse(farsynctest.Late(3))},
	{"expire", true, func(s *stage, op farsynctest.Op) farsynctest.Fault {
		s.mem.ExpireClient(op.Client)
		return farsynctest.None
	}},
	{"delete the first entry", true, func(s *stage, _ farsynctest.Op) farsynctest.Fault {
		if list := s.mem.Entries(playQueue); len(list) > 0 {
			s.mem.Delete(list[0].ID)
		}
		return farsynctest.None
	}},
	{"delete the last entry", true, func(s *stage, _ farsynctest.Op) farsynctest.Fault {
		if list := s.mem.Entries(playQueue); len(list) > 0 {
			s.mem.Delete(list[len(list)-1].ID)
		}
		return farsynctest.LoseReply
	}},
	{"cut off for two TTL", false, func(s *stage, op farsynctest.Op) farsynctest.Fault {
		s.mem.PartitionClient(op.Client, true)
		time.AfterFunc(2*playTTL, func() { s.mem.PartitionClient(op.Client, false) })
		return farsynctest.LoseReply
	}},
}

// thenRefuse refuses the next request of the same client and kind, too.
func thenRefuse(first farsynctest.Fault) func(*stage, farsynctest.Op) farsynctest.Fault {
	return func(s *stage, op farsynctest.Op) farsynctest.Fault {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse = append(s.refuse, farsynctest.Op{Kind: op.Kind, Client: op.Client})
		return first
	}
}

// A placement is a mishap at the n-th request, counted from 0.
type placement struct {
	at int
	mishap
}

// perform plays once, and returns how many requests that took.
func (p play) perform(t *testing.T, placed ...placement) (requests int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, mem: farsynctest.NewMem(), placed: placed}
		s.perform(p.clients)
		requests = s.requests
	})
	if t.Failed() {
		var names []string
		for _, f := range placed {
			names = append(names, fmt.Sprintf("%s at %d", f.name, f.at))
		}
		t.Fatalf("%s: %s", p.name, strings.Join(names, ", "))
	}
	return requests
}

// A stage is one performance.
type stage struct {
	*testing.T
	mem    *farsynctest.Mem
	placed []placement

	mu       sync.Mutex
	requests int
	refuse   []farsynctest.Op // what is refused next: Kind and Client
	inside   []*recipe.Hold
	breaking [][2]int64 // revision and turn that a client has named in a Break
	resized  int        // to how many units a client of ResizeByAnotherSize has begun to set the size; 0 before that
	highest  [2]int64   // the highest token that was shown: revision and turn
}

// patience is how long a play may take. Two faults may cost two sessions, and each what is left of the wait for the other.
const patience = 20 * playTTL

func (s *stage) perform(clients []func(*actor) error) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var stores []*recipe.Store
	for range clients {
		stores = append(stores, beneath.Store(s.mem.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: playTTL, Trace: CheckTrace(s)}})))
	}
	s.mem.SetFault(s.fault)
	var all sync.WaitGroup
	for i, act := range clients {
		a := &actor{stage: s, store: stores[i], ctx: ctx}
		all.Go(func() {
			if err := act(a); err != nil && !errors.Is(err, errRefusal) {
				s.Errorf("client %d: %v", i+1, err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		s.Error("not every waiter was served in time")
	}
	s.sleep(3 * playTTL) // for what is removed in the background, and for sessions that run out
	if list := s.mem.Entries(playQueue); len(list) > 0 {
		s.Errorf("entries left while their sessions live: %s", strings.Join(ids(list), ", "))
	}
	if s.mem.Words() > 0 {
		s.sleep(2 * playTTL) // a watch on a connection that is silent is looked after within 45 s
	}
	if words := s.mem.Words(); words > 0 {
		s.Errorf("words left with %d entries that are gone", words)
	}
	if _, _, watches := s.mem.Left(); watches > 0 {
		s.Errorf("%d watches left", watches)
	}
	s.mem.SetFault(nil)
	later := beneath.Store(s.mem.Open(&farsynctest.MemOptions{Options: farsync.Options{TTL: playTTL}}))
	free := recipe.Request{Queue: playQueue, Kind: driver.Exclusive, Units: 1, Try: true}
	h, err := recipe.Acquire(context.Background(), later, &free)
	if err == nil {
		err = h.Release()
	}
	if err != nil {
		s.Errorf("a later client: %v", err)
	}
	for _, store := range append(stores, later) {
		_ = store.Close() // a play may have closed it, when the service did not answer
	}
	s.sleep(2 * playTTL)
	if entries, sessions, watches := s.mem.Left(); entries+sessions+watches > 0 {
		s.Errorf("left at the service: %d entries, %d sessions, %d watches", entries, sessions, watches)
	}
}

// fault decides what becomes of a request.
func (s *stage) fault(op farsynctest.Op) farsynctest.Fault {
	s.mu.Lock()
	now := s.requests
	s.requests++
	s.mu.Unlock()
	for _, p := range s.placed {
		if p.at == now {
			return p.befall(s, op)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.refuse, farsynctest.Op{Kind: op.Kind, Client: op.Client}); i >= 0 {
		s.refuse = slices.Delete(s.refuse, i, i+1)
		return farsynctest.Refuse(errRefusal)
	}
	return farsynctest.None
}

// exact reports whether holders are kept apart also to the eye of a resource that checks no tokens.
func (s *stage) exact() bool {
	return !slices.ContainsFunc(s.placed, func(p placement) bool { return p.early })
}

func (s *stage) sleep(d time.Duration) { _ = pause.For(context.Background(), d) }

// use works under a hold for a while. Beside is how many holds may be at work at once, this one included.
func (s *stage) use(h *recipe.Hold, work time.Duration, beside int) {
	s.mu.Lock()
	revision, turn := h.Token()
	token := [2]int64{revision, int64(turn)}
	if h.Err() == nil && s.exact() {
		s.inside = slices.DeleteFunc(s.inside, func(other *recipe.Hold) bool { return other.Err() != nil })
		if s.inside = append(s.inside, h); len(s.inside) > beside {
			s.Errorf("%d hold at once", len(s.inside))
		}
		if beside == 1 && slices.Compare(token[:], s.highest[:]) <= 0 {
			s.Errorf("the token %v of a holder is not higher than %v", token, s.highest)
		}
	}
	if slices.Compare(token[:], s.highest[:]) > 0 {
		s.highest = token
	}
	s.mu.Unlock()
	s.sleep(work)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside = slices.DeleteFunc(s.inside, func(other *recipe.Hold) bool { return other == h })
}
