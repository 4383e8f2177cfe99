package farsync

import (
	"context"
	"errors"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Mutex is a mutual exclusion lock across processes: callers that lock the same path of the same service, from
// whatever process, wait for one another. Curator calls it InterProcessSemaphoreMutex; it is not reentrant.
//
// It is fair (FIFO), with one exception. The callers of one Store on one path wait in a line of their own, first in
// first out, behind one entry in the queue, whether they share a Mutex value or make one for each call. Once the entry
// is granted they take turns on it, without traffic: at most 255 more, none started later than 50 ms after the lock was
// won. Where turns are slow, up to 16 entries stand for the line. A caller who gives up in the line costs the service
// nothing. A caller whose ctx was made by Lease.Context of another lease has an entry of its own. Two Stores compete
// like two processes.
//
// All methods may be called by many goroutines at once.
type Mutex struct {
	store   *Store
	path    string
	request recipe.Request
}

// NewMutex returns a mutex on path: a slash, and then segments of 1 to 128 of the characters [A-Za-z0-9._-] joined by
// slashes, 1024 bytes at most. The segments . and .., segments that begin with _c_, and the tree /zookeeper are
// reserved.
//
// NewMutex does no I/O. A path that is not valid makes every call fail with ErrPath, at once: see PathOf for paths that
// are made of data. NewMutex panics if store is nil.
func NewMutex(store *Store, path string) *Mutex {
	check("NewMutex", store)
	return &Mutex{store, path, exclusive(path)}
}

// check panics over a programmer's mistake.
func check(constructor string, store *Store) {
	if store == nil {
		panic("farsync: " + constructor + ": nil store")
	}
}

// built returns the store of a primitive. It panics if there is none, as in the zero value of the type.
func built(store *Store, constructor string) *Store {
	mustBeMade(store != nil, constructor)
	return store
}

// mustBeMade panics for a primitive that its constructor has not made.
func mustBeMade(is bool, constructor string) {
	if !is {
		panic("farsync: use " + constructor)
	}
}

// exclusive returns what a mutex asks for, in the line of its path.
func exclusive(path string) recipe.Request {
	return recipe.Request{Queue: path, Kind: driver.Exclusive, Units: 1, Line: true}
}

// Lock waits until the mutex is held, and returns the lease on it. It waits through lost connections and lost sessions
// alike, until ctx is done.
//
// On error nothing is held. The call returns at once, also while the service is silent. If it had an entry in the
// queue, the Store removes the entry in the background: in a moment if the service answers, otherwise as soon as it
// does, or at the end of the session. A Try of another client may still find the entry in that moment.
//
// The error wraps ctx.Err() if ctx was done first, and then ErrUnavailable too if it was the service that did not
// answer, and not a holder that kept the mutex; ErrClosed if the Store was closed; ErrPath; ErrKind if other primitives
// use the path; or what the service said when it refused. ErrDeadlock, at once: ctx was made by the Context of a lease
// on this path that is still held, so that Lock would wait for itself.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return acquire(ctx, "lock", built(m.store, "NewMutex"), &m.request)
}

// TryLock is Lock without waiting for others: if the mutex is held or another caller waits for it, the error wraps
// ErrLocked. A mutex that is seen to be taken costs a read and no write; if another client joins between the read and
// the write, TryLock removes its entry again. The other errors, and the state after an error, are the same as for Lock.
// On PostgreSQL and MySQL, TryLock waits while a transaction that called LockTx on the path is open. If ctx ends first,
// the error wraps ctx.Err() and ErrUnavailable.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return acquire(ctx, "try lock", built(m.store, "NewMutex"), trying(m.request))
}

// trying returns the request without the wait for others.
func trying(r recipe.Request) *recipe.Request {
	r.Try = true
	return &r
}

// acquire acquires what is requested, and wraps the hold in a Lease.
func acquire(ctx context.Context, op string, store *Store, r *recipe.Request) (*Lease, error) {
	if err := oneself(ctx, store, r.Queue, r.Kind); err != nil {
		return nil, wrap(op, r.Queue, err)
	}
	hold, err := recipe.Acquire(ctx, store.below, r)
	if err != nil {
		return nil, wrap(op, r.Queue, err)
	}
	lease, err := newLease(store, r.Queue, r.Kind, hold)
	return lease, wrap(op, r.Queue, err)
}

// Do is Lock, and then Lease.Do: it waits until the mutex is held, runs fn, waits until fn has returned, and
// releases. ctx governs both how long Do waits for the mutex and how long fn works. The context that fn gets is done
// when ctx is, or when the lease has ended; fn must then stop.
//
// The error is Lock's if the mutex was not held, and nothing is held then. Otherwise the error is Lease.Do's, and the
// mutex is released: the error is fn's, or it wraps ErrLost or ErrClosed because the lease ended so before fn returned,
// also if fn succeeded. If ctx ends in the moment in which the mutex is held, fn is not run, and the error wraps
// ctx.Err().
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, lease *Lease) error) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Do(ctx, fn)
}

// TryDo runs fn if the mutex is free, and then blocks until fn has returned and the mutex was held for atLeast. It
// does not wait for other holders. It is for a job that every replica starts on the same schedule and one of them is
// to run: all replicas call it with the same arguments. A process that may be told to stop within atLeast must not
// close the Store then, with a deferred Close for example: Close gives the mutex back, and another replica runs the job
// again.
//
// ran tells whether fn was run. The results are:
//
//   - false, nil: another caller holds the mutex or waits for it, and runs the job.
//   - false, err: it is not known whether anybody runs the job. err is an error of TryLock, such as ErrUnavailable, or
//     of Lease.Outlast: fn runs only once that is confirmed. It wraps ctx.Err() if ctx ended in the moment in which the
//     mutex was held: the mutex is free again. It wraps ErrDeadlock if ctx stands for a lease on this mutex: fn could
//     never run.
//   - true, nil: fn has returned nil, and the mutex was not lost before TryDo returned.
//   - true, err: err is Lease.Do's: fn's, whatever it wraps, and ErrLost or ErrClosed if the lease ended so, also
//     after fn and within atLeast. Then another replica may run the job again.
//
// The mutex is held for at least as long as atLeast, counted from when it was held, also if fn has returned earlier,
// with or without an error. Otherwise a replica whose clock is late would find it free and run the job again. Choose
// atLeast longer than the clocks of the replicas are ever apart, and shorter than the time between two runs. A
// Release by fn gives up the rest of atLeast.
//
// ctx governs how long fn works, and how long TryDo waits for the rest of atLeast. If its deadline passes, TryDo
// waits all the same. If it is cancelled, by a process that shuts down, TryDo returns as soon as fn has returned,
// and the Store keeps the mutex for the rest of the time; also if fn panics. Close of the Store gives the mutex back
// at once, and so gives up the rest of atLeast. So a process that shuts down within that time ends without Close:
// the service then keeps the mutex until the session runs out: for the rest of the TTL, about three quarters of it
// at least. With an Options.TTL that is half as long again as atLeast it keeps the mutex for all of the time.
func (m *Mutex) TryDo(
	ctx context.Context, atLeast time.Duration, fn func(ctx context.Context, lease *Lease) error,
) (ran bool, err error) {
	lease, err := m.TryLock(ctx)
	switch {
	case errors.Is(err, ErrLocked):
		return false, nil
	case err != nil:
		return false, err
	}
	until := time.Now().Add(atLeast)
	if atLeast > 0 {
		if err := lease.Outlast(ctx); err != nil {
			return false, with(finish(lease), err)
		}
	}
	defer func() {
		if rest := time.Until(until); ran && rest > 0 && lease.Err() == nil { // ctx was cancelled, or fn has panicked
			lease.ReleaseAfter(rest)
		} else {
			err = with(finish(lease), err)
		}
	}()
	err = work(ctx, "try do", lease, func(ctx context.Context, lease *Lease) error {
		ran = true
		return fn(ctx, lease)
	})
	if rest := time.Until(until); ran && rest > 0 {
		sitOut(ctx, lease, rest)
	}
	return ran, err
}

// sitOut waits for the rest of the time, while the lease is held and ctx is not cancelled.
func sitOut(ctx context.Context, lease *Lease, d time.Duration) {
	rest := time.NewTimer(d)
	defer rest.Stop()
	for ended := ctx.Done(); ; ended = nil {
		select {
		case <-rest.C:
			return
		case <-lease.Done():
			return
		case <-ended:
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return
			}
		}
	}
}

// Locker returns the mutex as a sync.Locker, for code that was written for one. Its Lock has no way to fail. If the
// service refuses, it calls onError and tries again, a moment later each time, until it holds; if onError is nil, it
// panics with the error. When ctx is done, and with an error that cannot pass, ErrClosed, ErrPath or ErrDeadlock, it
// calls onError and panics.
//
// onError is called when the lease is lost or its Store closed, once, by a goroutine of its own that Unlock waits for:
// the code under the lock goes on, and another holder may work beside it. A panic of onError there ends the program,
// which is the safe answer to an error that wraps ErrLost where the code under the lock cannot be told to stop.
// Several goroutines may call onError at once: the goroutines that wait for the Locker when ctx ends. Locker.Lease
// returns the lease, for its Token and its Context.
//
// Unlock panics like sync.Mutex if it is not locked. It calls onError with the error of Lease.Release, unless onError
// was called with it before. If onError is nil, it panics with an error that wraps ErrLost or ErrClosed, and drops any
// other error.
//
// onError must not call Lock or Unlock of the same Locker. A Lock that waits for an Unlock of the same Locker is not
// woken by Close of the Store, only by that Unlock or the end of ctx.
//
// ctx governs the Locker for its whole lifetime. Different Lockers of one Mutex exclude one another, as does Lock.
func (m *Mutex) Locker(ctx context.Context, onError func(error)) *Locker {
	return newLocker(ctx, m.path, m.Lock, onError)
}
