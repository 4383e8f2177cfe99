package farsync

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Lease is one hold on a lock. It ends when it is released, when it can no longer be proved to be held, and when
// its Store is closed, whichever is first, and never begins again. All methods may be called by any goroutine at any
// time.
//
// A lease that is lost ends before the service gives the lock to another client: by an exact timer, which counts from
// when the last acknowledged renewal was sent. It cannot stop the code that relies on it. A process that is
// suspended at the wrong moment resumes where it was, with a lease that ended long ago; so does a write that has left
// the process. Where that matters, send Token with every write, and have the resource reject older ones.
//
// A lease that is never released stays held, for its Store renews it until Close. If the program has lost every
// reference to the Lease, so that nobody can release it any more, the garbage collector finds that, and the Store tells
// its Logger at Warn when it renews next. It does not release the lock: work that began under the lease may go on, and
// another holder must not join it because of a reference that is missing. A context of Context is a reference to the
// lease, also when no variable has that context any more, until it is cancelled or its parent ends. The channel of Done
// and a Token are no references: a program that means to hold a lock for as long as it runs keeps the Lease.
type Lease struct {
	// Nothing that the Store, its session or the hold can reach may refer to the Lease: unreachable is what the collector
	// says it is. Exceptions are those in which somebody may still release it, or works under it: ReleaseAfter, and the
	// contexts that have not ended.
	hold    *recipe.Hold
	store   *Store
	path    string
	token   Token
	kind    atomic.Uint32 // the driver.Kind of the lease; Write may become Read
	left    atomic.Bool   // leave was called
	leave   func()        // of a ReentrantMutex: called once, when it is about to be released; else nil
	dropped runtime.Cleanup

	listen sync.Once
	ear    *ear // nil until Asked is called
}

// An ear is the goroutine that listens for those who ask for a lock back. It does not know the lease.
type ear struct {
	asked chan struct{} // closed when another client has asked
	over  chan struct{} // closed when the goroutine has ended
}

// newLease makes a lease of a hold, which it releases if it cannot.
func newLease(store *Store, path string, kind driver.Kind, hold *recipe.Hold) (*Lease, error) {
	revision, turn := hold.Token()
	if revision > maxRevision {
		_ = hold.Release()
		return nil, errToken
	}
	l := &Lease{hold: hold, store: store, path: path, token: makeToken(revision, turn)}
	l.kind.Store(uint32(kind))
	l.dropped = runtime.AddCleanup(l, (*recipe.Hold).Dropped, hold)
	return l, nil
}

// held returns the kind of the lease.
func (l *Lease) held() driver.Kind { return driver.Kind(l.kind.Load()) }

// on returns the hold: a context stands for a lease on its own lock alone.
func (l *Lease) on(*Store, string) *recipe.Hold { return l.hold }

// is reports whether it is a lease of that kind.
func (l *Lease) is(k driver.Kind) bool { return l.held() == k }

// Token is the lease's fencing token.
func (l *Lease) Token() Token { return l.token }

// ID is what the service calls the entry of the lease: it equals the ID of the lease's Participant. Leases that follow
// one another on one entry within a process have one ID, and so have leases that share an entry: leases for reading,
// and leases of a ReentrantMutex. Their tokens tell them apart. RWMutex.Downgrade may give the lease another ID. An ID
// decides nothing, and stays when the lease has ended.
func (l *Lease) ID() string { return l.hold.ID() }

// Deadline is when the lease ends unless it is renewed before, as it is all the time while the service can be reached.
// A healthy lease is renewed long before its deadline. Deadline says nothing of a lease that has ended, and no method
// says when a lease has ended: a program that needs that time takes it when Done is closed.
func (l *Lease) Deadline() time.Time { return l.hold.Deadline() }

// Done is closed when the lease has ended, by release or by loss.
func (l *Lease) Done() <-chan struct{} { return l.hold.Life().Done() }

// Err is nil while the lease is held. Afterwards it is ErrReleased; or it wraps ErrLost and the cause; or it is
// ErrClosed. It looks at the clock, and so may know of a loss a moment before Done is closed.
func (l *Lease) Err() error { return l.hold.Err() }

// Context returns a context that is done when parent is, or the lease, with Err as its cause. The caller must call
// cancel when the work is over, unless parent ends then.
//
// Its Err looks at the clock as Lease.Err does. A context that is derived from it ends in the same moment as its Done
// channel is closed, by a timer, and its own Err knows no earlier: ask this one, or the lease, right before a step that
// cannot be undone.
//
// The context stands for the lease: a Lock of the same lock with it would wait for itself, and fails at once; a Lock of
// a ReentrantMutex enters again, in whatever goroutine. A Lock of another lock on the same Store publishes with its
// entry what it is under: see Participant.Under.
func (l *Lease) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = bind(parent, l.hold.Life(), l)
	return stand(ctx, l.store, l.path, l), cancel
}

// Do runs fn under the lease, waits until fn has returned, and releases the lease. fn gets the lease, and the
// context of Context(ctx), which is done when ctx is, or when the lease has ended: fn must then stop, and Do waits
// for it. So the wait for a lock can be bounded apart from the work:
//
//	lease, err := mu.Lock(short)
//	if err != nil {
//		return err
//	}
//	return lease.Do(ctx, work)
//
// fn is not run if the lease has ended or ctx is done. The error then wraps Err, or ctx.Err().
//
// Otherwise the error is fn's, joined with ErrLost or ErrClosed if the lease ended so before fn returned: also when
// fn succeeded, for then another holder may have worked at the same time. Neither says that what fn did had no
// effect: ask the resource before doing it again. An error of fn's that wraps the cause of its context is not joined
// with the same cause.
//
// A fn that stops because its context is done returns context.Cause(ctx) and not ctx.Err(). After a loss the error then
// wraps ErrLost alone. With ctx.Err() it matches context.Canceled, too, and a caller that takes context.Canceled for a
// shutdown passes over the loss: such a caller asks for ErrLost first.
//
// The lease has ended when Do returns, or fn panics. A release that the service has not confirmed is no error: it
// continues in the background, as after Release. fn may release the lease itself; what that Release returns is for
// fn to look at.
func (l *Lease) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	return do(ctx, l, fn)
}

// lock is the path of the lock.
func (l *Lease) lock() string { return l.path }

// Release gives the lease back. It ends at once; then Release waits for the service to confirm, for no longer than a
// third of the TTL or the rest of the lease. It takes no context, because a lock must not stay taken when the
// caller's context is done.
//
// Nil: it was held until now. ErrLost: it was not. ErrClosed: the Store was closed before. ErrReleased: it was released
// before. Any other error: it was held until now, but the service has not confirmed that the lock is free; removal
// continues in the background, and ends at the latest with the session, one TTL later. ErrUnavailable is among them.
func (l *Lease) Release() error {
	if l.leave != nil && !l.left.Swap(true) {
		l.leave()
	}
	l.dropped.Stop()
	err := l.hold.Release()
	l.listen.Do(func() {}) // listening does not begin any more
	if l.ear != nil {
		<-l.ear.over
	}
	return wrap("release", l.path, err)
}

// ReleaseAfter gives the lease back when d has passed, and does not wait for that: until then the lease is held, and
// its Store renews it. Release and Close of the Store end the lease before, as they end any. If the process ends
// without either, the service keeps the lease, as after Outlast, until the session runs out: for the rest of the TTL,
// about three quarters of it at least, for a session is renewed every quarter. ReleaseAfter calls Outlast in the
// background: on SQLite a process that may end the next moment calls Outlast before.
//
// ReleaseAfter reports no error: a lease that is lost before is seen by Done and Err, and a release that the service
// does not confirm continues in the background, as after Release.
func (l *Lease) ReleaseAfter(d time.Duration) { l.hold.After(d, func() { _ = l.Release() }) }

// Outlast has the service keep the lease until its session runs out, also if the process ends without Release and
// Close: for the rest of the TTL, about three quarters of it at least. Services do so anyway, except SQLite without the
// option Linger, where the lock of a process that has died is free at once. It is for a job that must not be run again
// by another process when this one dies. TryDo with a time, and ReleaseAfter, call it themselves.
//
// Nil means that the service has confirmed it. It then goes for all that the Store holds, until Close of the Store. An
// error that wraps ErrLost, ErrReleased or ErrClosed: the lease has ended. Any other error, also ctx.Err(): the lease is
// held, and it is not known how long the service would keep it.
func (l *Lease) Outlast(ctx context.Context) error {
	return wrap("outlast", l.path, l.hold.Outlast(ctx))
}

// Asked is closed once another client has asked for the lock back, with Store.Ask or as a Curator client with its
// Revoker. It is only a request: the lease stays held until it is released. Listening begins with the first call, and
// costs one watch. The channel stays open when the lease ends, and where the store cannot carry such requests.
func (l *Lease) Asked() <-chan struct{} {
	l.listen.Do(func() {
		l.ear = &ear{make(chan struct{}), make(chan struct{})}
		go l.ear.hear(l.hold) // ends with the lease; Release joins it
	})
	if l.ear == nil {
		return nil // it was released first: nobody is heard any more
	}
	return l.ear.asked
}

func (e *ear) hear(hold *recipe.Hold) {
	defer close(e.over)
	if hold.Asked(context.Background()) == nil {
		close(e.asked)
	}
}

// GuardEntries is for the Guard of a store's package: a transaction with that guard commits only while the lease is
// held. It returns what stands for the lease in the store, or an *Error that wraps Err once the lease has ended.
//
// From that call on the lock is not handed off to other goroutines of this process, which would go on under the same
// entry. Leases for reading that share the entry already keep it: the guard then holds until the last of them is
// released, and no writer holds before that. A program that wants to know the entry alone asks ID, which changes
// nothing.
func (l *Lease) GuardEntries() ([]driver.Entry, error) {
	entries, err := l.hold.Guarded()
	return entries, wrap("guard", l.path, err)
}

// bind returns a context that ends with parent or with the lease, with the cause.
//
// A caller that never calls cancel keeps nothing under the life of the lease once parent has ended: a leader's lease
// may live for weeks, and serve a thousand requests a second.
func bind(
	parent, life context.Context, lease interface{ Err() error },
) (context.Context, context.CancelFunc) {
	bound, end := context.WithCancelCause(parent)
	stop := context.AfterFunc(life, func() { end(lease.Err()) })
	unbind := func() bool { return true }
	if parent.Done() != nil {
		unbind = context.AfterFunc(bound, func() { stop() })
	}
	return &leaseContext{bound, lease, end}, func() {
		unbind() // before bound ends, which would start a goroutine for it
		stop()
		end(context.Canceled)
	}
}

// leaseContext is a context that looks at the lease's clock when it is asked.
type leaseContext struct {
	context.Context
	lease interface{ Err() error }
	end   context.CancelCauseFunc
}

// Err ends the context before it tells of a loss, so that Done and Cause agree with it.
func (c *leaseContext) Err() error {
	if c.Context.Err() == nil {
		if err := c.lease.Err(); err != nil {
			c.end(err)
		}
	}
	return c.Context.Err()
}
