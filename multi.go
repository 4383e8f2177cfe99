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

	"github.com/farsync/farsync/driver"
)

// A MultiMutex is several mutexes that are locked together: all or none. Curator calls it InterProcessMultiLock.
//
// A MultiMutex locks its members in one order, by the name of the store, then by path. So two of them with members in
// common cannot each hold what the other waits for. Mixed with plain Locks of the members, taken
// one inside the other, there is no such order.
type MultiMutex struct {
	members []*Mutex // in the order of the caller
	order   []int    // the members in the order in which they are locked
}

// NewMultiMutex returns a mutex of the members. If they are on more than one store, each of these needs a name, the
// same in all processes: the Name option of its package. It panics if there are no members, if one is nil or comes twice,
// and if stores have no names or the same.
func NewMultiMutex(members ...*Mutex) *MultiMutex {
	if len(members) == 0 {
		panic("farsync: NewMultiMutex: no members")
	}
	m := &MultiMutex{members: slices.Clone(members)}
	stores := map[string]*Store{}
	for i, member := range members {
		if member == nil {
			panic("farsync: NewMultiMutex: nil member")
		}
		m.order = append(m.order, i)
		name := member.store.Name()
		if other, taken := stores[name]; taken && other != member.store {
			if name == "" {
				panic("farsync: NewMultiMutex: several stores, and one without a name")
			}
			panic(fmt.Sprintf("farsync: NewMultiMutex: two stores have the name %q", name))
		}
		stores[name] = member.store
	}
	if _, nameless := stores[""]; nameless && len(stores) > 1 {
		panic("farsync: NewMultiMutex: several stores, and one without a name")
	}
	compare := func(a, b int) int {
		x, y := members[a], members[b]
		return cmp.Or(strings.Compare(x.store.Name(), y.store.Name()), strings.Compare(x.path, y.path))
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
// others are waited for, nothing is held: the members that were locked are released in the background, all at once, and
// Lock returns without waiting for that. The errors are those of Mutex.Lock, and ErrLost for a member that was lost.
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
				// The caller has not given up.
				err = wrap("lock", m.members[i].path, context.Cause(under))
			}
			l.abandon(n)
			return nil, err
		}
		l.leases[i] = lease
		l.stops = append(l.stops, context.AfterFunc(lease.hold.Life(), func() {
			l.end(lease.Err())
			cancel(lease.Err())
		}))
	}
	if err := l.Err(); err != nil {
		l.abandon(len(m.order))
		return nil, err
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
	ctx, cancel = bind(parent, l.life, l)
	for _, lease := range l.leases {
		ctx = stand(ctx, lease) //nolint:fatcontext // one for each member
	}
	return ctx, cancel
}

// Entries is as Lease.Entries, for all members. Those of different stores need a Guard of their own in each.
func (l *MultiLease) Entries() []driver.Entry {
	if l.Err() != nil {
		return nil
	}
	var entries []driver.Entry
	for _, lease := range l.leases {
		entries = append(entries, lease.Entries()...)
	}
	return entries
}

// Release gives all members back, at the same time, and joins their errors, which are those of Lease.Release. It takes
// no longer than the slowest of them.
func (l *MultiLease) Release() error {
	err := ErrReleased
	l.once.Do(func() {
		l.over()
		errs := make([]error, len(l.leases))
		var all sync.WaitGroup
		for i, lease := range l.leases {
			all.Go(func() { errs[i] = lease.Release() })
		}
		all.Wait()
		err = errors.Join(errs...)
	})
	return err
}

// over ends the lease as released, unless it was lost before.
func (l *MultiLease) over() {
	for _, stop := range l.stops {
		stop()
	}
	_ = l.Err() // a loss that was not noticed yet is the cause of the end, not the release
	l.end(ErrReleased)
}

// abandon gives back the first n of the members in order, in the background.
func (l *MultiLease) abandon(n int) {
	l.over()
	for _, i := range l.order[:n] {
		l.leases[i].hold.Abandon()
	}
}
