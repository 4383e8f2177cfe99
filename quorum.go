package farsync

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/recipe"
)

const (
	// A QuorumMutex that cannot be had asks again after a random part of a time that doubles from quorumFirst to
	// quorumMost.
	quorumFirst = 20 * time.Millisecond
	quorumMost  = time.Second
)

// A QuorumMutex is a mutex on several services that fail independently. It is held while a majority of its members is:
// of five Redis servers two may die, be cut off, or lose their data. That is the idea of Redlock; this one has queues,
// leases that are renewed and end in time, and tokens. MultiLease.Do runs a function under the lease that Lock returns.
//
// # What it rests on
//
// Two majorities have a member in common, and that member is held by one lease at a time. So two leases of a
// QuorumMutex exclude each other if all processes make it of the same members, and if every service keeps its promise.
// A service may be gone, slow or silent, but it must not give its lock to two: it may be the member in common. Redis
// keeps that promise over restarts and failovers as package redis says, by a silence of one TTL; and, as anywhere,
// while no clock is set forward.
//
// A QuorumMutex trades one etcd or ZooKeeper for several servers of another kind, and still rests on clocks that run at
// the same rate and on processes that do not stop. It is no safer than etcd: if you have that, use it. The resource
// that it protects must check tokens, in the way that MultiLease.Tokens describes.
//
// # How it is taken
//
// Lock takes the members in the order of the names of their stores, and waits at each for those ahead of it in its
// queue, until it holds a majority. So nothing is decided by chance, no two wait for each other, and the first member
// that all can reach serves first come, first served. A member is passed over if it has not answered for a tenth of the
// TTL, if its Store is not StateConnected, if it refuses, and if it grants nothing because it was restarted. When the
// members that are left make no majority, Lock gives back the members that it has and begins again, a moment later each
// time.
//
// A lease that is held for longer than about a tenth of the TTL takes the other members too, in the background, and the
// members that it loses. From then on it outlives the loss of any minority, and regains it.
//
// Names that differ between processes let no two hold, but may let them wait for each other until their contexts end.
// So may a Lock by the holder of another QuorumMutex that has members in common. An even number of members bears no
// more failures than one member less. Do not add or remove members while the lock is in use: a majority of the old
// members and a majority of the new need not have a member in common.
type QuorumMutex struct {
	group

	path     string
	requests []recipe.Request // of the members, in the order of the caller
}

// NewQuorumMutex returns a mutex of the members: mutexes on one path, each on a store of its own. Two stores of the
// same service would fail together, and wait for each other. Each store needs a name, the same in all processes: the
// Name option of its package. Give the members in one order in all processes: the Tokens come in that order. Open the
// stores with the option Lazy, each with a short ctx of its own: all processes have to name all members, also those
// that are gone, for a majority of the members that are left is no majority. NewQuorumMutex panics if there are no
// members, if one is nil, if two are on one store, if one of several stores has no name, if two have the same, and if
// the paths differ.
func NewQuorumMutex(members ...*Mutex) *QuorumMutex {
	q := &QuorumMutex{group: newGroup("NewQuorumMutex", members), path: members[0].path}
	q.need = len(members)/2 + 1
	stores := map[*Store]bool{}
	for _, member := range members {
		switch {
		case member.path != q.path:
			panic(fmt.Sprintf("farsync: NewQuorumMutex: members on the paths %s and %s", q.path, member.path))
		case stores[member.store]:
			panic("farsync: NewQuorumMutex: two members on one store")
		}
		stores[member.store] = true
		request := exclusive(q.path)
		request.Replaceable = true
		q.requests = append(q.requests, request)
	}
	return q
}

// Lock waits until a majority of the members is held, and returns the lease on it. It waits through lost connections,
// lost sessions and servers that are gone, until ctx is done.
//
// On error nothing is held, and nothing stays in the queues: where a service does not answer, cleanup continues in the
// background. The error wraps ctx.Err() if ctx was done first, and then ErrUnavailable too if it was the services that
// did not answer. If so many members refuse that no majority is left, it wraps what each of them said: ErrClosed,
// ErrKind, or the words of the service. ErrPath and ErrDeadlock come at once, and mean what they mean for Mutex.Lock.
func (q *QuorumMutex) Lock(ctx context.Context) (*MultiLease, error) {
	if err := q.admit(ctx); err != nil {
		return nil, wrap("lock", q.path, err)
	}
	var before *shortage // of the last round
	for delay := quorumFirst; ; delay = min(2*delay, quorumMost) {
		l := q.newLease()
		err := q.gather(ctx, "lock", l, q.lock)
		if err == nil {
			l.keeper.start()
			return newMulti(l), nil
		}
		l.abandon()
		short, ok := errors.AsType[*shortage](err)
		if !ok && ctx.Err() != nil && before != nil && !errors.Is(err, ErrUnavailable) && !recipe.Waited(err) {
			// The round that ctx has ended was too short to tell a service that is silent. The round before was not.
			return nil, wrap("lock", q.path, unavailable(ctx, before.Error()))
		}
		if !ok || ctx.Err() == nil && short.definite(q.bears()) {
			return nil, err
		}
		before = short
		if ctx.Err() != nil || pause.For(ctx, rand.N(delay)) != nil {
			return nil, wrap("lock", q.path, unavailable(ctx, short.Error()))
		}
	}
}

// TryLock is Lock without waiting for others. It asks all members at once. If so many are taken that no majority is
// left, the error wraps ErrLocked; if no majority is left because others of them grant nothing after a restart,
// ErrUnavailable alone. Several calls at the same time may take a few members each, and all fail. TryLock waits until
// enough services have answered, or ctx is done.
func (q *QuorumMutex) TryLock(ctx context.Context) (*MultiLease, error) {
	if err := q.admit(ctx); err != nil {
		return nil, wrap("try lock", q.path, err)
	}
	for {
		l, silent := q.try(ctx)
		if l.won() {
			l.keeper.start()
			return newMulti(l), nil
		}
		l.abandon()
		short, ok := errors.AsType[*shortage](context.Cause(l.life))
		switch {
		case ok && short.definiteNow(q.bears()):
			return nil, wrap("try lock", q.path, short)
		case ctx.Err() != nil && silent:
			return nil, wrap("try lock", q.path, unavailable(ctx, ""))
		case ctx.Err() != nil:
			return nil, wrap("try lock", q.path, gaveUp(ctx))
		}
		// Members were lost on the way: look again.
	}
}

// try asks all members at once, until it is decided whether a majority is held. Silent is true if ctx has ended and one
// of the services had not answered.
func (q *QuorumMutex) try(ctx context.Context) (l *membership, silent bool) {
	l = q.newLease()
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var rest *time.Timer
	for i, member := range q.members {
		all.Go(func() {
			lease, err := acquire(under, "try lock", member.store, trying(q.requests[i]))
			if err != nil && under.Err() != nil { // it was given up: no answer
				mu.Lock()
				defer mu.Unlock()
				silent = silent || errors.Is(err, ErrUnavailable)
				return
			}
			l.answer(i, lease, err)
			mu.Lock()
			defer mu.Unlock()
			if rest == nil && l.enough() {
				rest = time.AfterFunc(time.Since(began), cancel) // the others may be as fast
			}
		})
	}
	all.Wait()
	if rest != nil {
		rest.Stop()
	}
	return l, silent
}

// enough reports whether a majority is held.
func (l *membership) enough() bool {
	l.mu.Lock()
	defer l.unlock()
	return l.look() >= l.group.need
}

// admit refuses what need not be asked for.
func (q *QuorumMutex) admit(ctx context.Context) error {
	mustBeMade(len(q.members) > 0, "NewQuorumMutex")
	if err := recipe.CheckPath(q.path); err != nil {
		return err
	}
	for _, member := range q.members {
		if err := oneself(ctx, member.store, member.path, driver.Exclusive); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return gaveUp(ctx)
	}
	return nil
}

// lock locks a member.
func (q *QuorumMutex) lock(ctx context.Context, i int) (*Lease, error) {
	return acquire(ctx, "lock", q.members[i].store, &q.requests[i])
}

// bears returns how many members may fail.
func (q *QuorumMutex) bears() int { return len(q.members) - q.need }

func (q *QuorumMutex) newLease() *membership {
	l := newMembership(&q.group)
	l.keeper = &keeper{quorum: q, lease: l, taking: make([]bool, len(q.members))}
	return l
}

// unavailable is the error of a ctx that has ended before a majority of the services answered.
func unavailable(ctx context.Context, why string) error {
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("%w: %w%s", gaveUp(ctx), ErrUnavailable, why)
}

// A keeper takes the members that a lease does not hold, for as long as the lease lives. The lease does not depend on
// them, so it may wait for them in any order.
type keeper struct {
	quorum *QuorumMutex
	lease  *membership
	first  *time.Timer
	takers sync.WaitGroup // joined by release; added to while the lease lives

	// Guarded by the lease's mu.
	begun  bool
	taking []bool // Invariant: true while a goroutine takes that member, or after it has given up: something may stand there
}

// start has it begin after a tenth of what is left of the lease: a short one need not pay for more than a majority.
func (k *keeper) start() {
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	k.first = time.AfterFunc(time.Until(k.lease.deadline())/10, k.begin)
}

// begin runs on the timer.
func (k *keeper) begin() {
	k.lease.mu.Lock()
	defer k.lease.unlock()
	k.lease.look() // a process that was stopped goes on in any order: it may have ended
	k.begun = true
	for i := range k.taking {
		k.want(i)
	}
}

// want has a member taken if it is not held. The caller holds the lease's mu, and calls unlock.
func (k *keeper) want(i int) {
	held := k.lease.leases[i]
	if !k.begun || k.lease.life.Err() != nil || k.taking[i] || held != nil && held.Err() == nil {
		return
	}
	if held != nil {
		k.lease.errs[i] = held.Err() // which a look may not have seen yet
		k.lease.left = append(k.lease.left, held.hold)
		k.lease.leases[i] = nil
	}
	k.taking[i] = true
	k.takers.Add(1)
	go func() {
		left := k.take(i)
		k.takers.Done() // a Trace is told of what is left, and may call release
		giveBack(left)
	}()
}

// take locks a member, however often it takes, and returns what is to be given back. It ends with the lease.
func (k *keeper) take(i int) (left []*recipe.Hold) {
	apart := k.quorum.requests[i]
	apart.Line = false // in the line of its Store it would stand behind callers who are not in the queue yet
	for delay := quorumFirst; ; delay = min(2*delay, quorumMost) {
		lease, err := acquire(k.lease.life, "lock", k.quorum.members[i].store, &apart)
		switch {
		case err == nil:
			return k.regain(i, lease)
		case errors.Is(err, ErrClosed):
			k.letGo(i)
			return nil
		case k.lease.life.Err() != nil, pause.For(k.lease.life, rand.N(delay)) != nil:
			return nil
		}
	}
}

// letGo ends the taking of a member where nothing of it stands.
func (k *keeper) letGo(i int) {
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	k.taking[i] = false
}

// regain adds a member to the lease, unless that has ended, and returns what is to be given back.
func (k *keeper) regain(i int, lease *Lease) (left []*recipe.Hold) {
	l := k.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look() == 0 {
		left, l.left = l.left, nil
		return append(left, lease.hold)
	}
	k.taking[i] = false
	l.errs[i] = nil
	l.set(i, lease)
	return nil
}

// errLater is the error of a member which nothing waits for.
var errLater = fmt.Errorf("%w: it is released in the background", ErrUnavailable)

// release gives back all members of a lease that has ended, and joins what was started for it.
func (k *keeper) release() error {
	k.first.Stop()
	k.takers.Wait()
	l := k.lease
	if lost := context.Cause(l.life); !errors.Is(lost, ErrReleased) {
		return wrap("release", k.quorum.path, lost) // its members were given back then
	}
	var all sync.WaitGroup
	errs := make([]error, len(l.leases))
	for i, lease := range l.leases {
		switch {
		case lease == nil && k.taking[i]: // what waited for it may still stand there
			errs[i] = errLater
		case lease == nil:
		case lease.Err() == nil && lease.store.State() != StateConnected:
			errs[i] = errLater
			lease.hold.Abandon()
		default:
			all.Go(func() { errs[i] = lease.Release() })
		}
	}
	all.Wait()
	var held, unsure int
	for i, err := range errs {
		switch {
		case l.leases[i] == nil && err != nil:
			unsure++
		case l.leases[i] == nil, isLoss(err):
		case err == nil:
			held++
		default:
			held++
			unsure++
		}
	}
	switch {
	case held < l.group.need:
	case unsure > k.quorum.bears():
		// It was held until now, so that no error may wrap ErrLost: a member that was lost is free, and no reason for this
		// one.
		for i, err := range errs {
			if isLoss(err) {
				errs[i] = nil
			}
		}
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return wrap("release", k.quorum.path, l.shortage(errs))
}
