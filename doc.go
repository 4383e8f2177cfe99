// Package farsync is sync for goroutines of different processes: locks, semaphores and leader election that hold across
// machines, on the etcd, ZooKeeper, Redis, PostgreSQL or MySQL that a team already runs, or on one machine in a file.
//
// [Mutex], [ReentrantMutex], [RWMutex], [Semaphore] and [MultiMutex] are what their names say. A [QuorumMutex] is held
// on a majority of several services. An [Election] has one leader among many candidates, and a [Pool] runs tasks, a
// bounded number of them at a time over all processes. Each is made on a Store, by a path that all its users agree on;
// [PathOf] makes one of data. [Store.Participants], [Store.Survey], [Store.Ask] and [Store.Break] are for operators,
// and take a path of whatever primitive.
//
// Open a Store with package etcd, zk, redis, postgres, mysql or sqlite, make a Mutex on it, and share both between the
// goroutines of the process:
//
//	store, err := etcd.Open(ctx, client, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
//	return mu.Do(ctx, func(ctx context.Context, lease *farsync.Lease) error { // ctx is done the moment the lease is lost
//		return withdraw(ctx, lease.Token()) // the database refuses older tokens: docs/FENCE.md has the SQL
//	})
//
// Do waits for the mutex, runs the function, and releases. Lock and [Lease.Do], or [Lease.Context] and [Lease.Release],
// are its parts: every primitive has them.
//
// # What a lease promises
//
// Lock returns a [Lease]. While Lease.Err is nil, no lease that it excludes has an Err of nil, in whatever process: the
// service keeps the lock for a session of this Store's, and the lease ends by the clock here before the service can end
// that session there. If the connection fails, the lease stays held until that moment and not longer; then Done is
// closed, the contexts made from the lease end, and Err wraps ErrLost.
//
// Every lease has a [Token]. The Token of an exclusive holder is higher than the tokens of all exclusive holders of the
// same lock before it.
//
// There is one exception. A person with the right to do so may remove the entry of a held lock from the service, and
// the next waiter gets the lock. The old lease ends when its Store learns of that: a moment later if it has been held
// for 3 seconds, or a third of the TTL if that is less; otherwise when it gets that old, or at its Release.
//
// farsync cannot keep what a service forgets: docs/WHICH-STORE.md lists, for each store, the failures over which these
// promises hold.
//
// # One family a path
//
// A path belongs to one family of primitives, the family of the oldest entry in its queue, until the queue is empty:
//
//   - [Mutex], [ReentrantMutex] and the members of a [MultiMutex] or a [QuorumMutex] are one lock;
//   - [RWMutex];
//   - [Semaphore], and the [Pool] over it;
//   - [Election].
//
// Calls of another family are refused with [ErrKind]: a Try at once, a call that waits after a second or so, in which
// the others may leave. A lock that another program holds counts as the lock of a Mutex or of a candidate, and an
// RWMutex waits for it; a Semaphore refuses it.
//
// # What nothing can promise
//
// Nothing can promise that the code under a lease stops when the lease does. A process may be suspended for longer than
// the TTL of its session, by the scheduler, a debugger, the host of its virtual machine or a long garbage collection.
// Another process gets the lock. Then the first resumes, and writes what it was about to write. The same is true of a
// request that is under way in the network. No lock service can prevent that, and no client can see it from within.
//
// Where concurrent access would do harm rather than double work, let the resource decide: give Token with every write,
// and have the resource reject any token lower than the highest it has seen. If the resource is the store itself, use
// the Guard of its package: the write is then made only while the lease is held. A lock alone is enough where a rare
// overlap is a waste and nothing worse.
//
// Clocks need not agree, but the clocks of client and server must run at about the same rate: within a twentieth of it,
// which is the margin kept. Redis counts deadlines by its own time of day, and SQLite by the machine's on systems
// other than Linux. There the clock must not be set forward while locks are held.
package farsync
