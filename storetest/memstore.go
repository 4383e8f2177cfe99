package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/recipe"
)

// MemOptions are those of a client of Mem. The zero value is good.
type MemOptions struct {
	// TTL is the timeout of the client's sessions; 10 s if zero. At least a second.
	TTL time.Duration
	// Holder is the value of entries that ask for none, and names the client to Mem's faults; "mem-<n>" if empty.
	Holder string
	// Name is what MultiMutex orders stores by.
	Name string
	// OnState is called when the state changes, by one goroutine.
	OnState func(recipe.State)
}

// A MemStore is a client of Mem: a recipe.Store as a backend's is, with sessions that it renews every third of their
// TTL, and replaces when they are lost.
//
// A request that gets no answer is repeated for as long as its ctx lives, in a way that does nothing twice.
type MemStore struct {
	mem    *Mem
	link   *link
	ttl    time.Duration
	holder string
	name   string
	states *recipe.Announcer

	life  context.Context // the client's own, not a caller's: done once it is closed
	end   context.CancelFunc
	owned sync.WaitGroup // the keeper of the session, and removals that go on behind
	close func() error   // once

	mu      sync.Mutex
	session *memSession   // nil while there is none
	news    chan struct{} // closed when session is set
}

// Open returns a new client, with a session if the service answers at once. The caller must Close it. It panics if the
// TTL is below a second.
func (m *Mem) Open(opts *MemOptions) *MemStore {
	if opts == nil {
		opts = &MemOptions{}
	}
	s := &MemStore{mem: m, ttl: opts.TTL, holder: opts.Holder, name: opts.Name, news: make(chan struct{})}
	if s.ttl == 0 {
		s.ttl = 10 * time.Second
	}
	if s.ttl < time.Second {
		panic("storetest: Mem.Open: TTL below a second")
	}
	if s.holder == "" {
		s.holder = fmt.Sprintf("mem-%d", m.name())
	}
	s.link = &link{mem: m, client: s.holder}
	s.states = recipe.NewAnnouncer(opts.OnState)
	s.life, s.end = context.WithCancel(context.Background())
	s.close = sync.OnceValue(s.shut)
	first := s.open()
	s.owned.Go(func() { s.keep(first) })
	return s
}

// Close ends the session and all its entries, and all calls in flight, which return ErrClosed. It waits for what the
// client has started, and for the service to confirm the end of the session, for at most a third of the TTL: an error
// says that it did not, and the entries stay until the session runs out. It may be called again.
func (s *MemStore) Close() error { return s.close() }

// Peek implements recipe.Store.
func (s *MemStore) Peek(ctx context.Context, r recipe.Request) (blockers []recipe.Entry, err error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	var refused error
	if _, err := s.link.ask(bound, Read, r.Queue, func() { blockers, refused = s.mem.peek(r) }); err != nil {
		return nil, s.gaveUp(ctx, err)
	}
	return blockers, refused
}

// Join implements recipe.Store.
func (s *MemStore) Join(ctx context.Context, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	if err := recipe.CheckValue(r.Value); err != nil {
		return recipe.Entry{}, nil, err
	}
	for {
		held, err := s.live(bound)
		if err != nil {
			return recipe.Entry{}, nil, s.gaveUp(ctx, err)
		}
		e, blockers, err := s.create(bound, held, r)
		if err == nil || errors.Is(err, recipe.ErrSize) || errors.Is(err, recipe.ErrTooLarge) {
			return e, blockers, err
		}
		if bound.Err() != nil {
			return recipe.Entry{}, nil, s.gaveUp(ctx, err)
		}
		// The session was over. The next one is on its way.
	}
}

// Blockers implements recipe.Store.
func (s *MemStore) Blockers(ctx context.Context, e recipe.Entry, r recipe.Rule) (blockers []recipe.Entry, err error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	under, cancel := e.Session.Bind(bound)
	defer cancel()
	var refused error
	_, err = s.link.ask(under, Read, e.Queue, func() { _, blockers, refused = s.mem.look(e.ID, r) })
	switch over := e.Session.Err(); {
	case bound.Err() != nil && err != nil:
		return nil, s.gaveUp(ctx, err)
	case over != nil:
		return nil, gone(over)
	default:
		return blockers, refused
	}
}

// Wait implements recipe.Store.
func (s *MemStore) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	if len(anyOf) == 0 {
		return nil
	}
	bound, cancel := s.bind(ctx)
	defer cancel()
	var w *watch
	var refused error
	if _, err := s.link.ask(bound, Watch, anyOf[0].Queue, func() {
		if w != nil {
			s.mem.unwatch(w) // the reply that told of it was lost
		}
		w, refused = s.mem.watch(anyOf)
	}); err != nil || refused != nil {
		if w != nil {
			s.mem.unwatch(w)
		}
		if err != nil {
			return s.gaveUp(ctx, err)
		}
		return refused
	}
	defer s.mem.unwatch(w)
	select {
	case <-w.fired:
		if err := s.link.travel(bound); err != nil {
			return s.gaveUp(ctx, err)
		}
		return nil
	case <-bound.Done():
		return s.gaveUp(ctx, nil)
	}
}

// Leave implements recipe.Store. For an entry whose session is over it returns ErrGone at once.
func (s *MemStore) Leave(ctx context.Context, e recipe.Entry) error {
	bound, cancel := s.bind(ctx)
	defer cancel()
	if over := e.Session.Err(); over != nil {
		return gone(over)
	}
	under, cancel := e.Session.Bind(bound)
	defer cancel()
	removed := false
	unsure, err := s.link.ask(under, Delete, e.Queue, func() { removed = s.mem.Delete(e.ID) })
	switch {
	case err == nil && (removed || unsure):
		return nil
	case err == nil:
		return recipe.ErrGone
	case bound.Err() != nil:
		s.removeBehind(e.Session, e.Queue, e.ID)
		return s.gaveUp(ctx, err)
	default:
		// The session ended while the outcome was open. By our hand or with the session, the entry is removed.
		return nil
	}
}

// Change implements recipe.Store.
func (s *MemStore) Change(ctx context.Context, e recipe.Entry, k recipe.Kind, value []byte) (recipe.Entry, error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	if err := recipe.CheckValue(value); err != nil {
		return recipe.Entry{}, err
	}
	if over := e.Session.Err(); over != nil {
		return recipe.Entry{}, gone(over)
	}
	under, cancel := e.Session.Bind(bound)
	defer cancel()
	var to recipe.Entry
	var refused error
	_, err := s.link.ask(under, Write, e.Queue, func() { to, refused = s.mem.change(e.ID, k, value) })
	switch {
	case err != nil && bound.Err() == nil:
		return recipe.Entry{}, gone(e.Session.Err())
	case err != nil && s.life.Err() != nil:
		return recipe.Entry{}, recipe.ErrClosed
	case err != nil:
		return recipe.Entry{}, fmt.Errorf("%w: %w", recipe.ErrUnknown, s.gaveUp(ctx, err))
	}
	to.Session = e.Session
	return to, refused
}

// Resize implements recipe.Store.
func (s *MemStore) Resize(ctx context.Context, queue string, declared, size int64) error {
	bound, cancel := s.bind(ctx)
	defer cancel()
	var refused error
	if _, err := s.link.ask(bound, Write, queue, func() { refused = s.mem.resize(queue, declared, size) }); err != nil {
		return s.gaveUp(ctx, err)
	}
	return refused
}

// Size implements recipe.Store.
func (s *MemStore) Size(ctx context.Context, queue string) (declared, current int64, err error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	if _, err := s.link.ask(bound, Read, queue, func() { declared, current = s.mem.sizesOf(queue) }); err != nil {
		return 0, 0, s.gaveUp(ctx, err)
	}
	return declared, current, nil
}

// Entries implements recipe.Store.
func (s *MemStore) Entries(ctx context.Context, queue string) (list []recipe.Entry, err error) {
	bound, cancel := s.bind(ctx)
	defer cancel()
	if _, err := s.link.ask(bound, Read, queue, func() { list = s.mem.Entries(queue) }); err != nil {
		return nil, s.gaveUp(ctx, err)
	}
	return list, nil
}

// create makes one entry in one session. An error means that ctx has ended or the session is over; the removal of what
// may have been made has begun.
func (s *MemStore) create(ctx context.Context, held *memSession, r recipe.Request) (recipe.Entry, []recipe.Entry, error) {
	ctx, cancel := held.Bind(ctx)
	defer cancel()
	value := r.Value
	if value == nil {
		value = []byte(s.holder)
	}
	for {
		id := entryID(r.Queue, r.Kind, s.mem.name())
		var e recipe.Entry
		var blockers []recipe.Entry
		var refused error
		err := s.link.call(ctx, Create, r.Queue, func() {
			e, blockers, refused = s.mem.create(held.id, recipe.Entry{
				Queue: r.Queue, ID: id, Kind: r.Kind, Units: r.Units, Value: slices.Clone(value),
			}, r)
		})
		if err != nil {
			// It was made or not. Its name is its own, so look for that.
			_, err = s.link.ask(ctx, Read, r.Queue, func() { e, blockers, refused = s.mem.look(id, r.Rule) })
		}
		switch {
		case err != nil:
			s.removeBehind(held.Session, r.Queue, id)
			return recipe.Entry{}, nil, err
		case errors.Is(refused, errNoSession):
			held.End(errExpired)
			return recipe.Entry{}, nil, refused
		case errors.Is(refused, recipe.ErrGone):
			// It was not made, or somebody has removed it. Under a new name, for nothing may ever share one.
		case refused != nil:
			s.removeBehind(held.Session, r.Queue, id)
			return recipe.Entry{}, nil, refused
		default:
			e.Session = held.Session
			return e, blockers, nil
		}
	}
}

// removeBehind removes an entry that may exist, for as long as its session lives. After Close, the end of the session
// does it.
func (s *MemStore) removeBehind(session *recipe.Session, queue, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil || session.Err() != nil {
		return
	}
	s.owned.Go(func() {
		ctx, cancel := session.Bind(s.life)
		defer cancel()
		// An error is the end of the session.
		_, _ = s.link.ask(ctx, Delete, queue, func() { s.mem.Delete(id) })
	})
}

// bind returns a context that ends with ctx and with the client.
func (s *MemStore) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, end := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, end)
	if s.life.Err() != nil {
		end() // the goroutine of AfterFunc may come late
	}
	return bound, func() { stop(); end() }
}

// gaveUp is the error of a call that ended before it was answered.
func (s *MemStore) gaveUp(ctx context.Context, last error) error {
	if s.life.Err() != nil {
		return recipe.ErrClosed
	}
	return recipe.GaveUp(ctx, last)
}

// gone is the error of a call about an entry whose session is over.
func gone(over error) error {
	if errors.Is(over, recipe.ErrClosed) {
		return over
	}
	return fmt.Errorf("%w: %w", recipe.ErrGone, over)
}

// shut is what Close does the first time.
func (s *MemStore) shut() error {
	s.mu.Lock()
	s.end() // under mu: nothing is owned from now on that was not before
	held := s.session
	s.mu.Unlock()
	if held != nil {
		held.End(recipe.ErrClosed)
	}
	s.owned.Wait()
	s.states.Stop()
	if held = s.current(); held == nil {
		return nil
	}
	held.End(recipe.ErrClosed) // another, if one was just being opened
	ctx, cancel := context.WithTimeout(context.Background(), s.ttl/3)
	defer cancel()
	if _, err := s.link.ask(ctx, EndSession, "", func() { s.mem.endSession(held.id) }); err != nil {
		return recipe.GaveUp(ctx, err)
	}
	return nil
}

// Name returns the Name option.
func (s *MemStore) Name() string { return s.name }

// Ask implements recipe.Asker.
func (s *MemStore) Ask(ctx context.Context, e recipe.Entry) error {
	bound, cancel := s.bind(ctx)
	defer cancel()
	there := false
	if _, err := s.link.ask(bound, Write, e.Queue, func() { there = s.mem.ask(e.ID) }); err != nil {
		return s.gaveUp(ctx, err)
	}
	if !there {
		return recipe.ErrGone
	}
	return nil
}

// Asked implements recipe.Asker.
func (s *MemStore) Asked(ctx context.Context, e recipe.Entry) error {
	bound, cancel := s.bind(ctx)
	defer cancel()
	for {
		var w *watch
		asked, exists := false, false
		_, err := s.link.ask(bound, Watch, e.Queue, func() {
			if w != nil {
				s.mem.unwatch(w) // the reply that told of it was lost
			}
			w, asked, exists = s.mem.listen(e.ID)
		})
		switch {
		case err != nil:
			if w != nil {
				s.mem.unwatch(w)
			}
			return s.gaveUp(ctx, err)
		case !exists:
			return recipe.ErrGone
		case asked:
			return nil
		}
		select {
		case <-w.fired:
			if err := s.link.travel(bound); err != nil {
				return s.gaveUp(ctx, err)
			}
		case <-bound.Done():
			s.mem.unwatch(w)
			return s.gaveUp(ctx, nil)
		}
	}
}
