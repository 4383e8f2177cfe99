// Package farsync is sync for goroutines of different processes: locks, semaphores and leader election that hold across
// machines, on the etcd, ZooKeeper, Redis, PostgreSQL or MySQL that a team already runs, or on one machine in a file.
//
// To
//
//   - run code under a lock: [Mutex.Do], or [Mutex.Locker] for a sync.Locker;
//   - run a job on one replica of many: [Mutex.TryDo];
//   - have one leader: [Election.Lead];
//   - work with at most n at a time: [Semaphore], or [Pool] for tasks;
//   - let many read or one write: [RWMutex];
//   - hold several locks: [MultiMutex]; one on a majority of services: [QuorumMutex];
//   - lock again in a function that is called under the lock: [ReentrantMutex];
//   - see who holds and who waits, ask for a lock, break it: [Store.Participants], [Store.Survey], [Store.Ask] and
//     [Store.Break];
//   - test a program that locks: package farsynctest.
//
// Open a Store with package etcd, zk, redis, postgres, mysql or sqlite, make a Mutex on the path that all its users
// agree on ([PathOf] makes a path of data), and share both between the goroutines of the process:
//
//	store, err := etcd.Open(ctx, client, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//	return mu.Do(ctx, func(ctx context.Context, lease *farsync.Lease) error { // ctx is done the moment the lease is lost
//		return withdraw(ctx, lease.Token()) // the database refuses older tokens: docs/FENCE.md has the SQL
//	})
//
// Do waits for the mutex, runs the function, and releases. The other primitives have no Do of their own: their Lock or
// Acquire returns a lease, and [Lease.Do] runs a function under the lease.
//
// # What a lease promises
//
// Lock returns a [Lease]. While Lease.Err is nil, every lease that it excludes, in any process, has ended or does not
// exist yet. The Store counts the time of its leases by its own clock, from when it sent the last acknowledged renewal,
// and that time is over before the service gives the lock to another client. If the connection fails, the lease stays
// held until then and not longer; then Done is closed, the contexts made from the lease end, and Err wraps ErrLost.
//
// Every lease has a [Token]. The token of an exclusive holder is higher than the tokens of all exclusive holders of the
// same lock before.
//
// There are two exceptions. A person with the right to do so may remove or change the entry of a held lock:
// [BreakOptions] says when the holder learns of that. And a service may forget what it has granted: docs/WHICH-STORE.md
// lists, for each store, the failures over which these promises hold.
//
// # Errors
//
// Every error of a call is an [Error], and wraps one of these, the error of the ctx, or the answer of the service;
// docs/PARTS.md says what to do about each:
//
//   - ErrLocked: a Try found the lock taken.
//   - ErrUnavailable: the service does not answer, or grants nothing for now. Nothing is known of the lock.
//   - ErrLost: the lease ended before its release. Ask the resource before the work is done again.
//   - ErrClosed, ErrReleased: the Store was closed, the lease was released before.
//   - ErrDeadlock, ErrKind, ErrPath, ErrSize, ErrTooLarge: the program or its configuration has to be mended.
//
// # One family a path
//
// While a path is in use it belongs to one family of primitives: to mutexes, which Mutex, ReentrantMutex, MultiMutex and
// QuorumMutex share, or to RWMutex, to Semaphore with its Pool, or to Election. Calls of another family are refused
// with ErrKind.
//
// # What nothing can promise
//
// Nothing can promise that the code under a lease stops when the lease does. A process may be suspended for longer than
// the TTL of its session, by the scheduler or the host of its virtual machine. Another process gets the lock. Then the
// first resumes, and writes what it was about to write. No lock service can prevent that.
//
// Where concurrent access would do harm rather than double work, let the resource decide: give Token with every write,
// and have the resource reject any token lower than the highest it has seen. If the resource is the store itself, use
// the Guard of its package: the write is then made only while the lease is held. A lock alone is enough where a rare
// overlap is a waste and nothing worse.
//
// Clocks need not agree, but must run at about the same rate: within a twentieth of it, which is the margin kept. Where
// a store counts by a time of day, that clock must not be set forward: see its package.
package farsync
