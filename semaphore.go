package farsync

import (
	"cmp"
	"context"
	"fmt"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A Semaphore is a number of units that processes share: each acquires as many as it needs, and callers who find too
// few left wait. Curator calls it InterProcessSemaphoreV2, and its units leases; golang.org/x/sync/semaphore is the
// same within one process. It does not share a queue with Curator, which counts waiters as holders.
//
// It is fair (FIFO), so a large request is not passed over for ever by small ones. A request gets all its units or
// none. Of the callers of one Store on one path, whichever values they use, 16 stand in the queue once there are no
// units left. The others wait in the process, first in first out, and callers who give up there cost the service
// nothing. A caller whose ctx was made by Lease.Context of another lease has an entry of its own. Among callers of
// one Store, a caller may come in before a caller who came earlier and asks for another number of units, for the place
// of a caller who has given up is taken by the next who asks for as many.
//
// Acquire returns a lease on the units, and Lease.Do runs a function under it. A Pool does both for each task.
//
// The size is kept in the service with the queue. All users of the semaphore declare the same size; any other is
// refused with ErrSize. While the queue is empty it may be declared anew. Resize changes the size that counts.
//
// So a rolling deployment, in which processes of before and after stand in one queue, never changes the size that they
// declare. To go from 3 units to 5, all go on declaring 3, and one Resize(ctx, 5) sets the size that counts: before the
// deployment or after it. To declare 5, first end all processes that declare 3.
//
// How many waiters a release wakes: a waiter watches the nearest entries ahead that leave it no room. When units are
// released in the order in which they were acquired, that is one waiter a release, whatever the size. A release out of
// order, by the k-th oldest of the holders, wakes up to k of them, for each could be the one whose room it makes.
type Semaphore struct {
	store *Store
	path  string
	size  int64
}

// NewSemaphore returns a semaphore of size units on path, with the same rules for store and path as NewMutex. If size
// is less than 1, every Acquire, TryAcquire and Resize fails at once. Curator calls the size maxLeases.
func NewSemaphore(store *Store, path string, size int64) *Semaphore {
	check("NewSemaphore", store)
	return &Semaphore{store, path, size}
}

// Acquire waits until n units are held, and returns one lease on all of them. ErrTooLarge, at once: the semaphore
// does not have n units; also while it waits, if it is made smaller. ErrSize: the present users declared another size.
// Acquire first waits for these users to leave. It gives up when the oldest of them has stayed for a second; for eight
// times as long as the service takes to answer, if that is more; and for a third of the TTL at most. Where such users
// come and go, Acquire waits up to five times as long. If n is less than 1, Acquire fails at once. All else is as with
// Mutex.Lock.
//
// A ctx that stands for a lease on units of the same semaphore is not refused, for other units may come free. An
// Acquire for more units than the semaphore has beside the units of that lease waits until ctx is done.
func (s *Semaphore) Acquire(ctx context.Context, n int64) (*Lease, error) {
	return s.acquire(ctx, "acquire", n, false)
}

// TryAcquire is Acquire without waiting for others: ErrLocked if fewer than n units are free, or another caller waits.
// ErrSize comes as from Acquire, a second or more after the call: users of another size may be about to leave.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) (*Lease, error) {
	return s.acquire(ctx, "try acquire", n, true)
}

func (s *Semaphore) acquire(ctx context.Context, op string, n int64, try bool) (*Lease, error) {
	built(s.store, "NewSemaphore")
	if err := cmp.Or(counts("the semaphore was made with", s.size), counts("asked for", n)); err != nil {
		return nil, wrap(op, s.path, err)
	}
	request := recipe.Request{Queue: s.path, Kind: driver.Permit, Units: n, Size: s.size, Line: true, Try: try}
	return acquire(ctx, op, s.store, &request)
}

// counts returns an error if n units are fewer than 1. Numbers come from data, so that is none of the program's
// mistakes.
func counts(what string, n int64) error {
	if n < 1 {
		return fmt.Errorf("%s %d units: 1 is the least", what, n)
	}
	return nil
}

// Resize sets the size that counts, for all users of the semaphore, until it is set again. Made larger, it wakes
// waiters; made smaller, it takes nothing from holders: units come free until fewer are held. If n is less than 1,
// Resize fails at once.
//
// The size that this Semaphore was made with is not compared: while the semaphore has users who declare another size,
// theirs stays declared, and a process that declares another can resize for them. Resize first waits until these users
// have left, for as long as Acquire would: a second, as a rule. If there are no users, Resize declares the size that
// this Semaphore was made with, as Acquire does.
//
// ctx governs how long Resize waits. ErrKind: the users of the path are of another family. The other errors are the same
// as for Store.Participants. After an error of ctx, or of the service, the size may have been set.
//
// Where another program has written something else in the place of the size, Acquire fails, and names it. Resize sets
// the size again.
//
// On ZooKeeper the size lasts as long as the node of the queue, which the server removes when the queue has been
// empty for a while; after that the declared size counts again.
func (s *Semaphore) Resize(ctx context.Context, n int64) error {
	built(s.store, "NewSemaphore")
	if err := cmp.Or(counts("the semaphore was made with", s.size), counts("asked for", n)); err != nil {
		return wrap("resize", s.path, err)
	}
	_, err := recipe.Queue{Store: s.store.below, Path: s.path}.Resize(ctx, s.size, n)
	return wrap("resize", s.path, err)
}

// Size returns the size that counts: what Resize has set last, or else what the users of the semaphore have declared.
// It is what the service said when it was asked; by the time Size returns it may be another. A semaphore that nobody
// has used, or whose size the service has forgotten, has the size that it was made with: the next Acquire would
// declare it.
//
// ctx governs how long Size waits for the service. Size changes nothing. Where another program has written something
// else in the place of the size, Size fails, and names it. The other errors are the same as for Store.Participants.
func (s *Semaphore) Size(ctx context.Context) (int64, error) {
	size, err := recipe.Queue{Store: built(s.store, "NewSemaphore").below, Path: s.path}.Size(ctx)
	if err == nil && size == 0 {
		size, err = s.size, counts("the semaphore was made with", s.size)
	}
	if err != nil {
		return 0, wrap("size", s.path, err)
	}
	return size, nil
}
