package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/recipe"
)

// A request is what is to be locked.
type request struct {
	paths []string // of the service, in the order of the user
	kind  farsync.Kind
	size  int64 // of a semaphore
	units int64
	try   bool
	value string // of a candidate; empty for the holder

	reading []string // the paths that a farsync around this one holds for reading
}

// get locks one of the paths.
func (q *request) get(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
	switch q.kind {
	case farsync.KindCandidate:
		return farsync.NewElection(store, path).Campaign(ctx, q.value)
	case farsync.KindPermit:
		if s := farsync.NewSemaphore(store, path, q.size); !q.try {
			return s.Acquire(ctx, q.units)
		} else {
			return s.TryAcquire(ctx, q.units)
		}
	case farsync.KindRead, farsync.KindWrite:
		rw := farsync.NewRWMutex(store, path)
		switch {
		case q.kind == farsync.KindRead && q.try:
			return rw.TryRLock(ctx)
		case q.kind == farsync.KindRead && slices.Contains(q.reading, path):
			// As RLock under a lease for reading: ahead are readers, and perhaps a writer who waits for the farsync around this
			// one.
			lease, err := rw.TryRLock(ctx)
			if errors.Is(err, farsync.ErrLocked) {
				err = fmt.Errorf("read lock %s: a writer waits for the farsync around this one: %w", path, farsync.ErrDeadlock)
			}
			return lease, err
		case q.kind == farsync.KindRead:
			return rw.RLock(ctx)
		case q.try:
			return rw.TryLock(ctx)
		default:
			return rw.Lock(ctx)
		}
	default:
		if m := farsync.NewMutex(store, path); !q.try {
			return m.Lock(ctx)
		} else {
			return m.TryLock(ctx)
		}
	}
}

// acquire locks all paths or none, in the order of their names: so two that have paths in common cannot each hold what
// the other waits for. It calls before with each path. The error is about the path that could not be locked, and
// ErrLost for a path whose lock was lost while others were waited for.
func (q *request) acquire(ctx context.Context, store *farsync.Store, before func(path string)) (*held, error) {
	h := &held{leases: make([]*farsync.Lease, len(q.paths)), since: time.Now()}
	h.life, h.end = context.WithCancel(context.Background())
	order := make([]int, len(q.paths))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(q.paths[a], q.paths[b]) })
	under := ctx
	for _, i := range order {
		before(q.paths[i])
		lease, err := q.get(under, store, q.paths[i])
		if err != nil {
			if cause := h.Err(); cause != nil && ctx.Err() == nil {
				err = cause
			}
			_ = h.Release()
			return nil, err
		}
		h.leases[i] = lease
		var cancel context.CancelFunc
		under, cancel = lease.Context(under) //nolint:fatcontext // a member that is lost ends the wait for the others
		h.ends = append(h.ends, cancel)
		h.life, cancel = lease.Context(h.life)
		h.ends = append(h.ends, cancel)
	}
	h.since = time.Now()
	return h, nil
}

// held is what acquire has locked. It ends with the first of its leases that ends.
type held struct {
	leases []*farsync.Lease // in the order of the user; nil while not locked
	since  time.Time

	life context.Context // its own: done when it has ended
	end  context.CancelFunc
	ends []context.CancelFunc
	ears sync.WaitGroup
	says sync.WaitGroup // the goroutine of explain
}

// Deadline is the earliest of the leases'.
func (h *held) Deadline() (first time.Time) {
	for _, lease := range h.leases {
		if d := lease.Deadline(); first.IsZero() || d.Before(first) {
			first = d
		}
	}
	return first
}

// Done is closed when one of the leases has ended.
func (h *held) Done() <-chan struct{} { return h.life.Done() }

// Err is nil while all leases are held.
func (h *held) Err() error {
	for _, lease := range h.leases {
		if lease == nil {
			continue
		}
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Asked is closed when another client has asked for one of the locks. It is to be called once.
func (h *held) Asked() <-chan struct{} {
	if len(h.leases) == 1 {
		return h.leases[0].Asked()
	}
	asked := make(chan struct{})
	var once sync.Once
	for _, lease := range h.leases {
		h.ears.Go(func() { // ends with the hold, when Release joins it
			select {
			case <-lease.Asked():
				once.Do(func() { close(asked) })
			case <-h.life.Done():
			}
		})
	}
	return asked
}

// Release gives all locks back at once.
func (h *held) Release() error {
	errs := make([]error, len(h.leases))
	var releasing sync.WaitGroup
	for i, lease := range h.leases {
		if lease != nil {
			releasing.Go(func() { errs[i] = lease.Release() })
		}
	}
	releasing.Wait()
	for _, end := range h.ends {
		end()
	}
	h.end()
	h.ears.Wait()
	h.says.Wait()
	return errors.Join(errs...)
}

// explain has the entries say what the holder waits for before it gives the locks back. It waits for nothing: the
// service may not answer, or refuse, and COMMAND and the locks have no part in that.
func (h *held) explain(store *farsync.Store, waitsFor string) {
	h.says.Go(func() { // ends with the hold, when Release joins it
		_ = recipe.Explain(h.life, beneath.Store(store), fit(waitsFor))
	})
}

// mostSaid is how many bytes an entry has room for.
const mostSaid = 256

// fit returns a text as an entry can say it: in characters that can be shown, and cut if it is long.
func fit(text string) string {
	text = legible.Text(text)
	if len(text) <= mostSaid {
		return text
	}
	return legible.Cut(text, mostSaid-len("…"))
}

// tokens are the fencing tokens, in the order of the paths.
func (h *held) tokens() (list []farsync.Token) {
	for _, lease := range h.leases {
		list = append(list, lease.Token())
	}
	return list
}

// spaced returns the tokens as FARSYNC_TOKEN has them.
func spaced(tokens []farsync.Token) string { return strings.Trim(fmt.Sprint(tokens), "[]") }

// entries are what stands for the leases in the service.
func (h *held) entries() (list []string) {
	for _, lease := range h.leases {
		list = append(list, lease.ID())
	}
	return list
}
