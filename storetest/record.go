package storetest

import (
	"context"
	"slices"
	"sync"

	"github.com/farsync/farsync/recipe"
)

// A Call is one call of a Store that has returned.
type Call struct {
	Kind OpKind
	// Client is the name given to Wrap.
	Client string
	Queue  string
	// Entry is the ID of the entry the call was about or returned. Empty for Peek, Wait and Entries.
	Entry string
	// On are the IDs of the entries that block (Peek, Join, Blockers) or are waited for (Wait).
	On  []string
	Err error
}

// A Record writes down the calls of the Stores it has wrapped, all in one list, in the order in which they returned.
// The zero value is ready. All methods may be called by any goroutine.
type Record struct {
	mu    sync.Mutex
	calls []Call
}

// Wrap returns s with its calls written down under the name of client.
func (r *Record) Wrap(s recipe.Store, client string) recipe.Store { return &recorded{s, r, client} }

// Calls returns what was called.
func (r *Record) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Count returns how many calls of the given kinds have returned; of all kinds if none is given.
func (r *Record) Count(kinds ...OpKind) int {
	n := 0
	for _, c := range r.Calls() {
		if len(kinds) == 0 || slices.Contains(kinds, c.Kind) {
			n++
		}
	}
	return n
}

// Waits returns, for each entry that was ever blocked, the IDs of all that were named as blocking it.
func (r *Record) Waits() map[string][]string {
	waits := map[string][]string{}
	for _, c := range r.Calls() {
		if c.Entry == "" {
			continue
		}
		for _, on := range c.On {
			if !slices.Contains(waits[c.Entry], on) {
				waits[c.Entry] = append(waits[c.Entry], on)
			}
		}
	}
	return waits
}

// Reset forgets all calls.
func (r *Record) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

func (r *Record) add(c Call, on []recipe.Entry) {
	for _, e := range on {
		c.On = append(c.On, e.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

type recorded struct {
	store  recipe.Store
	record *Record
	client string
}

func (s *recorded) Peek(ctx context.Context, r recipe.Request) ([]recipe.Entry, error) {
	blockers, err := s.store.Peek(ctx, r)
	s.record.add(Call{Kind: Peek, Client: s.client, Queue: r.Queue, Err: err}, blockers)
	return blockers, err
}

func (s *recorded) Join(ctx context.Context, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	e, blockers, err := s.store.Join(ctx, r)
	s.record.add(Call{Kind: Join, Client: s.client, Queue: r.Queue, Entry: e.ID, Err: err}, blockers)
	return e, blockers, err
}

func (s *recorded) Blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) ([]recipe.Entry, error) {
	blockers, err := s.store.Blockers(ctx, e, r)
	s.record.add(Call{Kind: Blockers, Client: s.client, Queue: e.Queue, Entry: e.ID, Err: err}, blockers)
	return blockers, err
}

func (s *recorded) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	err := s.store.Wait(ctx, anyOf...)
	c := Call{Kind: Wait, Client: s.client, Err: err}
	if len(anyOf) > 0 {
		c.Queue = anyOf[0].Queue
	}
	s.record.add(c, anyOf)
	return err
}

func (s *recorded) Leave(ctx context.Context, e recipe.Entry) error {
	err := s.store.Leave(ctx, e)
	s.record.add(Call{Kind: Leave, Client: s.client, Queue: e.Queue, Entry: e.ID, Err: err}, nil)
	return err
}

func (s *recorded) Change(ctx context.Context, e recipe.Entry, k recipe.Kind, value []byte) (recipe.Entry, error) {
	to, err := s.store.Change(ctx, e, k, value)
	s.record.add(Call{Kind: Change, Client: s.client, Queue: e.Queue, Entry: e.ID, Err: err}, nil)
	return to, err
}

func (s *recorded) Resize(ctx context.Context, queue string, declared, size int64) error {
	err := s.store.Resize(ctx, queue, declared, size)
	s.record.add(Call{Kind: Resize, Client: s.client, Queue: queue, Err: err}, nil)
	return err
}

func (s *recorded) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	declared, current, err = s.store.Size(ctx, queue)
	s.record.add(Call{Kind: SizeOf, Client: s.client, Queue: queue, Err: err}, nil)
	return declared, current, err
}

func (s *recorded) Entries(ctx context.Context, queue string) ([]recipe.Entry, error) {
	list, err := s.store.Entries(ctx, queue)
	s.record.add(Call{Kind: Entries, Client: s.client, Queue: queue, Err: err}, nil)
	return list, err
}
