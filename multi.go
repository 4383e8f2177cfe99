package farsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync/recipe"
)

// A MultiMutex is several mutexes that are locked together: all or none. Curator calls it InterProcessMultiLock.
//
// Whoever locks some of the same mutexes through a MultiMutex does so in the same order, so that two of them cannot each
// hold what the other waits for: by the name of the store, then by path. Mixed with plain Locks of the members, taken
// one inside the other, there is no such order.
type MultiMutex struct {
	members []*Mutex // in the order of the caller
	order   []int    // the members in the order in which they are locked
}

// NewMultiMutex returns a mutex of the members. If they are on more than one store, each of these needs a name, the
// same in all processes: the Name option of its package. It panics if there are no members, if one comes twice, and if
// stores have no names or the same.
func NewMultiMutex(members ...*Mutex) *MultiMutex {
	if len(members) == 0 {
		panic("farsync: NewMultiMutex: no members")
	}
	m := &MultiMutex{members: slices.Clone(members)}
	names := map[recipe.Store]string{}
	stores := map[string]recipe.Store{}
	for i, member := range members {
		m.order = append(m.order, i)
		names[member.store] = ""
	}
	for store := range names {
		if len(names) == 1 {
			break
		}
		named, ok := store.(recipe.Named)
		if !ok || named.Name() == "" {
			panic("farsync: NewMultiMutex: several stores, and one without a name")
		}
		if other, taken := stores[named.Name()]; taken && other != store {
			panic(fmt.Sprintf("farsync: NewMultiMutex: two stores have the name %q", named.Name()))
		}
		names[store], stores[named.Name()] = named.Name(), store
	}
	compare := func(a, b int) int {
		x, y := members[a], members[b]
		return cmp.Or(strings.Compare(names[x.store], names[y.store]), strings.Compare(x.path, y.path))
	}
	slices.SortStableFunc(m.order, compare)
	for i := 1; i < len(m.order); i++ {
		if compare(m.order[i-1], m.order[i]) == 0 {
			panic(fmt.Sprintf("farsync: NewMultiMutex: %s comes twice", members[m.order[i]].path))
		}
	}
	return m
}

// Lock waits until all members are held, and returns one lease on all of them. If one of them fails, or is lost while
// others are waited for, those held are released in reverse, and the error joins what went wrong with what went wrong
// with that.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) {
	l := &MultiLease{leases: make([]*Lease, len(m.members)), order: m.order}
	l.life, l.end = context.WithCancelCause(context.Background())
	// A member that is lost ends the waiting for the others.
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for n, i := range m.order {
		lease, err := m.members[i].Lock(under)
		if err != nil {
			if ctx.Err() == nil && under.Err() != nil {
				// It was not the caller who gave up.
				err = wrap("lock", m.members[i].path, context.Cause(under))
			}
			return nil, errors.Join(err, l.release(n))
		}
		l.leases[i] = lease
		l.stops = append(l.stops, lease.hold.AfterEnd(func() {
			l.end(lease.Err())
			cancel(lease.Err())
		}))
	}
	if err := l.Err(); err != nil {
		return nil, errors.Join(err, l.release(len(m.order)))
	}
	return l, nil
}

// A MultiLease is a hold on all members of a MultiMutex. It ends with the first of its members' leases that ends. All
// methods may be called by any goroutine at any time.
type MultiLease struct {
	leases []*Lease // in the order of the members
	order  []int
	stops  []func() bool
	once   sync.Once

	life context.Context // the lease's own: done when it has ended, with the cause
	end  context.CancelCauseFunc
}

// Tokens returns the members' fencing tokens, in the order in which the members were given.
func (l *MultiLease) Tokens() []Token {
	tokens := make([]Token, len(l.leases))
	for i, lease := range l.leases {
		tokens[i] = lease.Token()
	}
	return tokens
}

// Deadline is the earliest of the members'.
func (l *MultiLease) Deadline() time.Time {
	first := l.leases[0].Deadline()
	for _, lease := range l.leases[1:] {
		if d := lease.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Done is closed when the lease has ended, by release or by the loss of a member.
func (l *MultiLease) Done() <-chan struct{} { return l.life.Done() }

// Err is nil while all members are held, by the clock at the time of the call; else as with Lease.Err.
func (l *MultiLease) Err() error {
	if l.life.Err() == nil {
		for _, lease := range l.leases {
			if lease == nil {
				continue // not locked yet
			}
			if err := lease.Err(); err != nil {
				l.end(err)
			}
		}
	}
	return context.Cause(l.life)
}

// Context is as Lease.Context, for all members.
func (l *MultiLease) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	return bind(parent, l, func(f func()) func() bool { return context.AfterFunc(l.life, f) })
}

// Entries is as Lease.Entries, for all members. Those of different stores need a Guard of their own in each.
func (l *MultiLease) Entries() []recipe.Entry {
	if l.Err() != nil {
		return nil
	}
	var entries []recipe.Entry
	for _, lease := range l.leases {
		entries = append(entries, lease.Entries()...)
	}
	return entries
}

// Release gives all members back, in the reverse of the order in which they were locked, and joins their errors, which
// are those of Lease.Release.
func (l *MultiLease) Release() error {
	err := ErrReleased
	l.once.Do(func() { err = l.release(len(l.order)) })
	return err
}

// release gives back the first n of the members in order.
func (l *MultiLease) release(n int) error {
	for _, stop := range l.stops {
		stop()
	}
	_ = l.Err() // a loss that nobody has noticed is the cause of the end, not the release
	l.end(ErrReleased)
	var errs []error
	for _, i := range slices.Backward(l.order[:n]) {
		errs = append(errs, l.leases[i].Release())
	}
	return errors.Join(errs...)
}
