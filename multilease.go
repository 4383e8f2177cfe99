package farsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A MultiLease is a hold on the members of a MultiMutex or of a QuorumMutex. The lease of a MultiMutex ends with the
// first of its members' leases that ends, the lease of a QuorumMutex when fewer than a majority are left. All methods
// may be called by any goroutine at any time.
//
// When the program has lost every reference to a lease of a MultiMutex that was not released, a line of the log names
// its members, as Lease says. There is no such line for a lease of a QuorumMutex, for the goroutine that takes lost
// members again refers to the lease.
type MultiLease struct {
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

func newMultiLease(g *group) *MultiLease {
	n := len(g.members)
	l := &MultiLease{
		group: g, open: n,
		leases: make([]*Lease, n), errs: make([]error, n), stops: make([]func() bool, n), tokens: make([]Token, n),
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// unlock unlocks mu, and then gives back what was given up under it: a Trace is told of that, and may ask the lease.
func (l *MultiLease) unlock() {
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
func (l *MultiLease) answer(i int, lease *Lease, err error) {
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
func (l *MultiLease) set(i int, lease *Lease) {
	l.leases[i] = lease
	l.stops[i] = context.AfterFunc(lease.hold.Life(), l.missing(i, lease.hold))
	if l.ears != nil {
		l.hear(lease)
	}
}

// missing returns what is to be called when the hold on a member has ended. Of a MultiMutex it does not refer to the
// lease, for the collector to find whether anybody else does. Where nobody does, only its Done may still be waited for, and
// the loss of any member closes that.
func (l *MultiLease) missing(i int, hold *recipe.Hold) func() {
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
func (l *MultiLease) miss(i int) {
	l.mu.Lock()
	defer l.unlock()
	l.look()
	if l.keeper != nil {
		l.keeper.want(i)
	}
}

// won reports whether as many members are held as have to be, all at one moment: while it looks no other is added. From
// then on none is waited for.
func (l *MultiLease) won() bool {
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
func (l *MultiLease) look() (held int) {
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
func (l *MultiLease) why() error {
	l.failed = slices.IndexFunc(l.errs, func(err error) bool { return err != nil })
	if l.keeper == nil {
		return l.errs[l.failed]
	}
	return l.shortage(l.errs)
}

// Tokens returns the members' fencing tokens, in the order in which the members were given. A member that a
// MultiMutex was given twice has its token at both places. They never change.
//
// The tokens of a QuorumMutex are of the members by which the lease was won, a majority; all others are 0. Of two
// leases, the later one has the higher token of every member that both have, and they have one in common. So a resource
// that is to be protected keeps the highest token of each member, and refuses a request that has a lower one for any of
// them, zeros aside.
func (l *MultiLease) Tokens() []Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Token, len(l.group.places))
	for i, member := range l.group.places {
		list[i] = l.tokens[member]
	}
	return list
}

// Deadline is when the lease ends unless leases of its members are renewed before: of a MultiMutex the earliest of
// theirs, of a QuorumMutex the earliest by which fewer than a majority are left.
func (l *MultiLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline()
}

// deadline is Deadline. The caller holds mu.
func (l *MultiLease) deadline() time.Time {
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

// Done is closed when the lease has ended, by release or by the loss of too many members.
func (l *MultiLease) Done() <-chan struct{} { return l.life.Done() }

// Err is nil while enough members are held, by the clock at the time of the call; else as with Lease.Err. The Err of a
// QuorumMutex tells about each member that was lost, and about each that was never held as far as it is known why, and
// wraps all their errors.
func (l *MultiLease) Err() error {
	l.mu.Lock()
	defer l.unlock()
	l.look()
	return context.Cause(l.life)
}

// held is what it is a lease for.
func (l *MultiLease) held() driver.Kind { return driver.Exclusive }

// on returns the hold on the member of that path, nil if it is not held.
func (l *MultiLease) on(store *Store, path string) *recipe.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, member := range l.group.members {
		if lease := l.leases[i]; lease != nil && member.store == store && member.path == path && lease.Err() == nil {
			return lease.hold
		}
	}
	return nil
}

// Context is as Lease.Context, for all members, held or not.
func (l *MultiLease) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = bind(parent, l.life, l)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, member := range l.group.members {
		var of standing = l
		if l.keeper == nil {
			of = l.leases[i] // the others are held until they are released
		}
		ctx = stand(ctx, member.store, member.path, of) //nolint:fatcontext // one for each member
	}
	return ctx, cancel
}

// GuardEntries is as Lease.GuardEntries, for all members that are held. Members of different stores need a Guard of
// their own in each, and a Guard tells of its own member alone, which need not be among those by which the lease of a
// QuorumMutex is held a moment later.
func (l *MultiLease) GuardEntries() ([]driver.Entry, error) {
	entries := l.entries()
	if err := l.Err(); err != nil {
		return nil, wrap("guard", l.lock(), err)
	}
	return entries, nil
}

// entries returns what stands for the members that are held, or nothing if the lease has ended.
func (l *MultiLease) entries() []driver.Entry {
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

// Do is as Lease.Do: it runs fn under the lease, waits until fn has returned, and gives all members back. The error
// wraps ErrLost if the lease was lost before fn returned.
func (l *MultiLease) Do(ctx context.Context, fn func(ctx context.Context, lease *MultiLease) error) error {
	return do(ctx, l, fn)
}

// lock is the path of a member: of the member whose loss has ended the lease, if there is one.
func (l *MultiLease) lock() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.group.members[l.failed].path
}

// Asked is closed once another client has asked for one of the members back, as with Lease.Asked. It is only a
// request for all of them: the lease stays held until it is released. Listening begins with the first call, and costs
// one watch a member; of a QuorumMutex also for members that are regained. The channel stays open when the lease
// ends.
func (l *MultiLease) Asked() <-chan struct{} {
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
func (l *MultiLease) hear(lease *Lease) {
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

// Release gives all members back, at the same time, and joins their errors, the same as for Lease.Release. It takes
// no longer than the slowest of them.
//
// For a QuorumMutex it returns nil if a majority was held until now, and enough members have confirmed the release for
// another to get a majority. Members whose Store is not StateConnected are given back in the background. When a lease
// of a QuorumMutex is lost, its other members are given back at once, before Release is called.
func (l *MultiLease) Release() error {
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
func (l *MultiLease) join() {
	l.mu.Lock()
	e := l.ears
	l.mu.Unlock()
	if e != nil {
		e.tasks.Wait()
	}
}

// over ends the lease as released, unless it was lost before. No member is added any more.
func (l *MultiLease) over() {
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
func (l *MultiLease) abandon() {
	l.over()
	l.mu.Lock()
	defer l.unlock()
	l.giveUp()
}

// retreat is abandon for a caller that waits until it is confirmed, while ctx lives. No member is added any more.
func (l *MultiLease) retreat(ctx context.Context) {
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
func (l *MultiLease) giveUp() {
	for _, lease := range l.leases {
		if lease != nil {
			l.left = append(l.left, lease.hold)
		}
	}
}

// A shortage is why too few members are held.
type shortage struct {
	of    int      // members
	names []string // of the stores of members that are not held
	errs  []error  // why not
}

// shortage returns the error of a lease without the members for which errs has an error. The caller holds mu.
func (l *MultiLease) shortage(errs []error) *shortage {
	s := &shortage{of: len(errs)}
	for i, err := range errs {
		if of, ok := errors.AsType[*Error](err); ok {
			err = of.Err
		}
		if err != nil {
			s.names = append(s.names, l.group.members[i].store.Name())
			s.errs = append(s.errs, err)
		}
	}
	return s
}

// Error names the members, those with one reason together.
func (s *shortage) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "no majority of %d members", s.of)
	told := map[string]bool{}
	for i, err := range s.errs {
		why := err.Error()
		if told[why] {
			continue
		}
		told[why] = true
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		text.WriteString(separator)
		for j := i; j < len(s.errs); j++ {
			if s.errs[j].Error() == why {
				fmt.Fprintf(&text, "%s, ", s.names[j])
			}
		}
		text.WriteString(why)
	}
	return text.String()
}

// Unwrap returns what happened to the members. ErrLocked is left out if the members that are taken would leave a
// majority: then the services of the others are in the way.
func (s *shortage) Unwrap() []error {
	taken := func(err error) bool { return errors.Is(err, ErrLocked) }
	if s.count(taken) > (s.of-1)/2 {
		return s.errs
	}
	return slices.DeleteFunc(slices.Clone(s.errs), taken)
}

// holder returns who was ahead of a Try at the first member that tells, if there is no majority because of the members
// that are taken.
func (s *shortage) holder() string {
	if !errors.Is(s, ErrLocked) {
		return ""
	}
	for _, err := range s.errs {
		if holder := recipe.HolderOf(err); holder != "" {
			return holder
		}
	}
	return ""
}

func (s *shortage) count(of func(error) bool) (n int) {
	for _, err := range s.errs {
		if of(err) {
			n++
		}
	}
	return n
}

// definite reports whether so many members have refused that no majority can be held.
func (s *shortage) definite(most int) bool { return s.count(refused) > most }

// definiteNow is definite for a call that does not wait: neither does it for a service that grants nothing for a while, or that does not
// confirm that an entry of this process is removed.
func (s *shortage) definiteNow(most int) bool {
	return s.count(func(err error) bool { return refused(err) || isSilence(err) || recipe.IsStuck(err) }) > most
}

func refused(err error) bool { return !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost) }
