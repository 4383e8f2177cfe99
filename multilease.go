package farsync

import (
	"context"
	"runtime"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A MultiLease is a hold on the members of a MultiMutex or of a QuorumMutex. The lease of a MultiMutex ends with the
// first of its members' leases that ends, the lease of a QuorumMutex when fewer than a majority are left. All methods
// may be called by any goroutine at any time.
//
// When the program has lost every reference to a MultiLease that was not released, lines of the log name the members that are
// held, as Lease says.
type MultiLease struct {
	// What the Stores and the keeper can reach does not refer to the MultiLease: unreachable is what the collector says it is.
	members *membership
}

// newMulti returns the lease on members that are held.
func newMulti(members *membership) *MultiLease {
	l := &MultiLease{members}
	if members.keeper != nil { // those of a MultiMutex are as unreachable as the lease
		runtime.AddCleanup(l, (*membership).dropped, members)
	}
	return l
}

// Tokens returns the members' fencing tokens, in the order in which the members were given. A member that a
// MultiMutex was given twice has its token at both places. They never change.
//
// The tokens of a QuorumMutex are of the members by which the lease was won, a majority; all others are 0. Of two
// leases, the later one has the higher token of every member that both have, and they have one in common. So a resource
// that is to be protected keeps the highest token of each member, and refuses a request that has a lower one for any of
// them, zeros aside.
func (l *MultiLease) Tokens() []Token { return l.members.Tokens() }

// Deadline is when the lease ends unless leases of its members are renewed before: of a MultiMutex the earliest of
// theirs, of a QuorumMutex the earliest by which fewer than a majority are left. As Lease.Deadline it says nothing of a
// lease that has ended.
func (l *MultiLease) Deadline() time.Time { return l.members.Deadline() }

// Done is closed when the lease has ended, by release or by the loss of too many members.
func (l *MultiLease) Done() <-chan struct{} { return l.members.life.Done() }

// Err is nil while enough members are held, by the clock at the time of the call; else as with Lease.Err. The Err of a
// QuorumMutex tells about each member that was lost, and about each that was never held as far as it is known why, and
// wraps all their errors.
func (l *MultiLease) Err() error { return l.members.Err() }

// Context is as Lease.Context, for all members, held or not.
func (l *MultiLease) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = bind(parent, l.members.life, l)
	l.members.mu.Lock()
	defer l.members.mu.Unlock()
	for i, member := range l.members.group.members {
		var of standing = l
		if l.members.keeper == nil {
			of = l.members.leases[i] // the others are held until they are released
		}
		ctx = stand(ctx, member.store, member.path, of) //nolint:fatcontext // one for each member
	}
	return ctx, cancel
}

// GuardEntries is as Lease.GuardEntries, for all members that are held. Members of different stores need a Guard of
// their own in each, and a Guard tells of its own member alone, which need not be among those by which the lease of a
// QuorumMutex is held a moment later.
func (l *MultiLease) GuardEntries() ([]driver.Entry, error) {
	entries := l.members.entries()
	if err := l.Err(); err != nil {
		return nil, wrap("guard", l.lock(), err)
	}
	return entries, nil
}

// Do is as Lease.Do: it runs fn under the lease, waits until fn has returned, and gives all members back. The error
// wraps ErrLost if the lease was lost before fn returned.
func (l *MultiLease) Do(ctx context.Context, fn func(ctx context.Context, lease *MultiLease) error) error {
	return do(ctx, l, fn)
}

// Asked is closed once another client has asked for one of the members back, as with Lease.Asked. It is only a
// request for all of them: the lease stays held until it is released. Listening begins with the first call, and costs
// one watch a member; of a QuorumMutex also for members that are regained. The channel stays open when the lease
// ends.
func (l *MultiLease) Asked() <-chan struct{} { return l.members.Asked() }

// Release gives all members back, at the same time, and joins their errors, the same as for Lease.Release. It takes
// no longer than the slowest of them.
//
// For a QuorumMutex it returns nil if a majority was held until now, and enough members have confirmed the release for
// another to get a majority. Members whose Store is not StateConnected are given back in the background. When a lease
// of a QuorumMutex is lost, its other members are given back at once, before Release is called.
func (l *MultiLease) Release() error { return l.members.Release() }

// held returns the kind of the lease.
func (l *MultiLease) held() driver.Kind { return driver.Exclusive }

// on is membership.on.
func (l *MultiLease) on(store *Store, path string) *recipe.Hold { return l.members.on(store, path) }

// lock is membership.lock.
func (l *MultiLease) lock() string { return l.members.lock() }
