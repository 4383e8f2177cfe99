package farsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/farsync/farsync/recipe"
)

// A MultiMutex is several mutexes that are locked together: all or none. Curator calls it InterProcessMultiLock.
//
// A MultiMutex locks its members in one order, by the name of the store, then by path. So two of them with members in
// common cannot each hold what the other waits for. A path of one Store that comes twice is locked once. Mixed with
// plain Locks of the members, taken one inside the other, there is no such order.
//
// MultiLease.Do runs a function under the lease that Lock returns.
type MultiMutex struct{ group }

// NewMultiMutex returns a mutex of the members. If they are on more than one store, each of these needs a name, the
// same in all processes: the Name option of its package. Two stores of one service are two names for the same locks:
// members on one path of it wait for each other, until ctx is done.
//
// Members on one path of one store are one member, which is locked once: a transfer from an account to itself needs
// no case of its own. NewMultiMutex panics if there are no members, if one is nil, if one of several stores has no
// name, and if two have the same.
func NewMultiMutex(members ...*Mutex) *MultiMutex {
	g := newGroup("NewMultiMutex", members)
	g.need = len(g.members)
	return &MultiMutex{g}
}

// Lock waits until all members are held, and returns one lease on all of them. If one of them fails, or is lost while
// others are waited for, nothing is held: the members that were locked are released in the background, all at once,
// and Lock returns without waiting for that. The errors are the same as for Mutex.Lock, and ErrLost for a member that
// was lost. ErrPath comes at once, before any member is locked.
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error) {
	l := newMembership(&m.group)
	if err := m.take(ctx, "lock", l, (*Mutex).Lock); err != nil {
		l.abandon()
		return nil, err
	}
	return newMulti(l), nil
}

// TryLock is Lock without waiting for others: all members or none. It tries them one after another. If a member is
// held or another caller waits for it, the error wraps ErrLocked and has the path of that member, and the members
// behind it are not tried. The members before it were held for a moment: TryLock gives them back, all at once, and
// waits for the service to confirm as Release does, while ctx lives; so the next TryLock of this process does not find
// them taken. A release that is not confirmed continues in the background, and is no error of TryLock. The other
// errors, and the state after an error, are the same as for Lock.
func (m *MultiMutex) TryLock(ctx context.Context) (*MultiLease, error) {
	l := newMembership(&m.group)
	if err := m.take(ctx, "try lock", l, (*Mutex).TryLock); err != nil {
		l.retreat(ctx)
		return nil, err
	}
	return newMulti(l), nil
}

// take locks all members for l, each by lock. On error some may be held.
func (m *MultiMutex) take(
	ctx context.Context, op string, l *membership, lock func(*Mutex, context.Context) (*Lease, error),
) error {
	mustBeMade(len(m.members) > 0, "NewMultiMutex")
	for _, member := range m.members {
		if err := recipe.CheckPath(member.path); err != nil {
			return wrap(op, member.path, err)
		}
	}
	return m.gather(ctx, op, l, func(ctx context.Context, i int) (*Lease, error) { return lock(m.members[i], ctx) })
}

// A group is mutexes that are locked together.
type group struct {
	members []*Mutex // in the order of the caller, each once
	places  []int    // of what the caller gave: which of the members each is
	order   []int    // the members in the order in which they are locked
	need    int      // how many of them have to be held
}

// newGroup puts the members in order. The order must be the same in all processes, so it is none of theirs, nor of
// what they find at the other end of a connection.
func newGroup(constructor string, members []*Mutex) group {
	fail := func(why string) { panic("farsync: " + constructor + ": " + why) }
	if len(members) == 0 {
		fail("no members")
	}
	type lock struct {
		store *Store
		path  string
	}
	var g group
	known, stores := map[lock]int{}, map[string]*Store{}
	for _, member := range members {
		if member == nil {
			fail("nil member")
		}
		name := built(member.store, "NewMutex").Name()
		if other, taken := stores[name]; taken && other != member.store {
			if name == "" {
				fail("several stores, and one without a name")
			}
			fail(fmt.Sprintf("two stores have the name %q", name))
		}
		stores[name] = member.store
		at, again := known[lock{member.store, member.path}]
		if !again {
			at = len(g.members)
			known[lock{member.store, member.path}] = at
			g.members, g.order = append(g.members, member), append(g.order, at)
		}
		g.places = append(g.places, at)
	}
	if _, nameless := stores[""]; nameless && len(stores) > 1 {
		fail("several stores, and one without a name")
	}
	slices.SortFunc(g.order, func(a, b int) int {
		x, y := g.members[a], g.members[b]
		return cmp.Or(strings.Compare(x.store.Name(), y.store.Name()), strings.Compare(x.path, y.path))
	})
	return g
}

// gather locks members for l in order, until as many are held as have to be. On error the caller
// gives back what is held. The error is ctx's, or an *Error with the reason for which too few can be held.
//
// A caller who holds a member waits only for later members, so there is no circle of callers that wait for one another.
// That is also true if some are left out.
func (g *group) gather(
	ctx context.Context, op string, l *membership, lock func(ctx context.Context, i int) (*Lease, error),
) error {
	// A loss that leaves too few ends the waiting for the others.
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })()
	for _, i := range g.order {
		lease, err := lock(under, i)
		if err != nil && ctx.Err() != nil {
			return err
		}
		l.answer(i, lease, err)
		if l.won() {
			return nil
		}
		if lease != nil && l.keeper == nil {
			// Callers who wait for this member can be seen to wait for what is waited for next. Of a QuorumMutex each is
			// on a Store of its own, which knows nothing of the others.
			under = stand(under, g.members[i].store, g.members[i].path, lease) //nolint:fatcontext // one for each member
		}
		if err := l.Err(); err != nil {
			if _, told := errors.AsType[*Error](err); told {
				return err
			}
			return wrap(op, g.members[l.failed].path, err)
		}
	}
	panic("farsync: a group that is neither won nor lost")
}
