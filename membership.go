package farsync

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A membership is what a MultiLease holds: the leases on its members. What runs in the background refers to it, and not to the
// MultiLease.
type membership struct {
	group  *group
	keeper *keeper     // of a QuorumMutex; nil for a MultiMutex
	taken  atomic.Bool // released, by the first caller of Release

	life context.Context // the lease's own: done when it has ended, with the cause
	end  context.CancelCauseFunc

	mu     sync.Mutex
	leases []*Lease       // in the order of the members; nil for members that were never held
	errs   []error        // why a member is not held, as far as that is known
	stops  []func() bool  // end the attention to the loss of a member
	tokens []Token        // of the members by which the lease was won
	open   int            // Invariant: so many members are still to answer, and 0 once the lease was won
	until  time.Time      // the last deadline of as many members as have to be held
	failed int            // the first member whose error has ended it
	left   []*recipe.Hold // to be given back by unlock
	ears   *ears          // nil until Asked is called
}

// Ears are the goroutines that listen for those who ask for a member back. They do not know the lease.
type ears struct {
	life  context.Context // the lease's
	asked chan struct{}   // closed when a member has been asked for
	heard sync.Once       // closes asked
	tasks sync.WaitGroup  // added to under the lease's mu while the lease lives
}

func newMembership(g *group) *membership {
	n := len(g.members)
	l := &membership{
		group: g, open: n,
		leases: make([]*Lease, n), errs: make([]error, n), stops: make([]func() bool, n), tokens: make([]Token, n),
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// unlock unlocks mu, and then gives back what was given up under it: a Trace is told of that, and may ask the lease.
func (l *membership) unlock() {
	left := l.left
	l.left = nil
	l.mu.Unlock()
	giveBack(left)
}

// giveBack gives back holds in the background. The caller holds nothing.
func giveBack(holds []*recipe.Hold) {
	for _, hold := range holds {
		hold.Abandon()
	}
}

// answer notes what has come of the lock of a member: a lease or an error.
func (l *membership) answer(i int, lease *Lease, err error) {
	l.mu.Lock()
	defer l.unlock()
	if lease != nil {
		l.set(i, lease)
	}
	l.errs[i] = err
	l.open--
	l.look()
}

// set makes a lease the lease of a member. The caller holds mu.
func (l *membership) set(i int, lease *Lease) {
	l.leases[i] = lease
	l.stops[i] = context.AfterFunc(lease.hold.Life(), l.missing(i, lease.hold))
	if l.ears != nil {
		l.hear(lease)
	}
}

// missing returns what is to be called when the hold on a member has ended. Of a MultiMutex it does not refer to the
// lease, for the collector to find whether anybody else does. Where nobody does, only its Done may still be waited for, and
// the loss of any member closes that.
func (l *membership) missing(i int, hold *recipe.Hold) func() {
	if l.keeper != nil {
		return func() { l.miss(i) }
	}
	lease, end := weak.Make(l), l.end
	return func() {
		if l := lease.Value(); l != nil {
			l.miss(i)
		} else {
			end(hold.Err())
		}
	}
}

// miss looks when a member was lost, and has it taken again.
func (l *membership) miss(i int) {
	l.mu.Lock()
	defer l.unlock()
	l.look()
	if l.keeper != nil {
		l.keeper.want(i)
	}
}

// won reports whether as many members are held as have to be, all at one moment: while it looks no other is added. From
// then on none is waited for.
func (l *membership) won() bool {
	l.mu.Lock()
	defer l.unlock()
	if l.look() < l.group.need {
		return false
	}
	l.open = 0
	for i, lease := range l.leases {
		if lease != nil && lease.Err() == nil {
			l.tokens[i] = lease.Token()
		}
	}
	return l.look() >= l.group.need
}

// look counts the members that are held, by the clock, and ends the lease if they are too few, with the members that
// may still come. Members are added only after a look at the others: so a moment in which there were too few is not
// missed. The caller holds mu, and calls unlock.
func (l *membership) look() (held int) {
	if l.life.Err() != nil {
		return 0
	}
	for i, lease := range l.leases {
		if lease == nil {
			continue
		}
		if err := lease.Err(); err != nil {
			l.errs[i] = err
		} else {
			held++
		}
	}
	if held+l.open < l.group.need {
		l.end(l.why())
		if l.keeper != nil {
			l.giveUp() // a minority is of use to others alone
		}
		return 0
	}
	return held
}

// why returns the reason for which too few members are held. The caller holds mu.
func (l *membership) why() error {
	l.failed = slices.IndexFunc(l.errs, func(err error) bool { return err != nil })
	if l.keeper == nil {
		return l.errs[l.failed]
	}
	return l.shortage(l.errs)
}

// Tokens is MultiLease.Tokens.
func (l *membership) Tokens() []Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Token, len(l.group.places))
	for i, member := range l.group.places {
		list[i] = l.tokens[member]
	}
	return list
}

// Deadline is MultiLease.Deadline.
func (l *membership) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// deadline is Deadline. The caller holds mu.
func (l *membership) deadline() time.Time {
	var every, held []time.Time
	for _, lease := range l.leases {
		if lease == nil {
			continue
		}
		every = append(every, lease.Deadline())
		if lease.Err() == nil {
			held = append(held, lease.Deadline())
		}
	}
	if len(held) < l.group.need {
		held = every // it has ended
	}
	if len(held) >= l.group.need { // else a keeper has let go of some
		slices.SortFunc(held, func(a, b time.Time) int { return b.Compare(a) })
		l.until = held[l.group.need-1]
	}
	return l.until
}

// Err is MultiLease.Err.
func (l *membership) Err() error {
	l.mu.Lock()
	defer l.unlock()
	l.look()
	return context.Cause(l.life)
}

// on returns the hold on the member of that path, nil if it is not held.
func (l *membership) on(store *Store, path string) *recipe.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, member := range l.group.members {
		if lease := l.leases[i]; lease != nil && member.store == store && member.path == path && lease.Err() == nil {
			return lease.hold
		}
	}
	return nil
}

// entries returns what stands for the members that are held, or nothing if the lease has ended.
func (l *membership) entries() []driver.Entry {
	l.mu.Lock()
	defer l.unlock()
	var entries []driver.Entry
	for _, lease := range l.leases {
		if lease != nil {
			entries = append(entries, lease.hold.Entries()...)
		}
	}
	if l.look() == 0 { // a member that was lost on the way is not among them, and a Guard of the others would pass
		return nil
	}
	return entries
}

// lock is the path of a member: of the member whose loss has ended the lease, if there is one.
func (l *membership) lock() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group.members[l.failed].path
}

// Asked is MultiLease.Asked.
func (l *membership) Asked() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ears == nil {
		l.ears = &ears{life: l.life, asked: make(chan struct{})}
		for _, lease := range l.leases {
			if lease != nil {
				l.hear(lease)
			}
		}
	}
	return l.ears.asked
}

// hear listens for a member. It ends with the member's lease or with l, and Release joins it. The caller holds mu.
func (l *membership) hear(lease *Lease) {
	if l.life.Err() != nil { // Release may have joined the others
		return
	}
	e, hold := l.ears, lease.hold
	e.tasks.Go(func() {
		if hold.Asked(e.life) == nil {
			e.heard.Do(func() { close(e.asked) })
		}
	})
}

// Release is MultiLease.Release.
func (l *membership) Release() error {
	if l.taken.Swap(true) {
		return ErrReleased
	}
	l.over()
	defer l.join()
	if l.keeper != nil {
		return l.keeper.release()
	}
	errs := make([]error, len(l.leases))
	var all sync.WaitGroup
	for i, lease := range l.leases {
		all.Go(func() { errs[i] = lease.Release() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// join waits for the ears of a lease that has ended.
func (l *membership) join() {
	l.mu.Lock()
	e := l.ears
	l.mu.Unlock()
	if e != nil {
		e.tasks.Wait()
	}
}

// dropped notes the members that are held under a lease of a QuorumMutex which the program has lost. It is called as
// recipe.Hold.Dropped is, and waits for no more than a look of another goroutine. The keeper goes on, and members that it takes
// later are not told of.
func (l *membership) dropped() {
	if l.taken.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range l.leases {
		if lease != nil {
			lease.hold.Dropped()
		}
	}
}

// over ends the lease as released, unless it was lost before. No member is added any more.
func (l *membership) over() {
	l.mu.Lock()
	defer l.unlock()
	for _, stop := range l.stops {
		if stop != nil {
			stop()
		}
	}
	l.look() // a loss that was not noticed yet is the cause of the end, not the release
	l.end(ErrReleased)
}

// abandon gives back what is held, in the background.
func (l *membership) abandon() {
	l.over()
	l.mu.Lock()
	defer l.unlock()
	l.giveUp()
}

// retreat is abandon for a caller that waits until it is confirmed, while ctx lives. No member is added any more.
func (l *membership) retreat(ctx context.Context) {
	if ctx.Err() != nil {
		l.abandon()
		return
	}
	l.over()
	var all sync.WaitGroup
	for _, lease := range l.leases {
		if lease != nil {
			all.Go(func() { _ = lease.hold.ReleaseIn(ctx) }) // what is not confirmed continues in the background
		}
	}
	all.Wait()
}

// giveUp gives back the members of a lease that has ended. The caller holds mu, and calls unlock.
func (l *membership) giveUp() {
	for _, lease := range l.leases {
		if lease != nil {
			l.left = append(l.left, lease.hold)
		}
	}
}
