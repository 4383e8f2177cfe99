// Package recipe is the layer that all of farsync's primitives and all of its stores share: queues, the rule that
// decides who waits, the loop that waits, and what is then held. Users of farsync need it for the names in a few
// signatures; whoever writes a Store for another service needs all of it, and package storetest.
//
// # The parts
//
// A [Store] keeps queues of entries in a coordination service, in the order of their creation, and knows nothing of
// locks. A [Rule] is a pure function: from the entries ahead of an entry it tells which ones block it. [Acquire] is the
// one loop that joins, waits and looks again until nothing blocks. The entry at the end of it is a grant; a [Hold] is
// one local hold on a grant, and a [Gate] lets the goroutines of a process take turns on one.
//
//	primitive ── Gate ── Acquire ── Store ── etcd, ZooKeeper, storetest.Mem
//	                        │
//	                       Rule
//
// # Why two never hold at once
//
// An entry is granted when an answer of the service shows that it exists and that the rule finds nothing ahead of it
// that blocks. Two properties of the queue make that enough. Order is by creation, which the service serializes, so of
// two exclusive entries exactly one is ahead. And places ahead only shrink: nobody joins ahead of an entry later; at
// most an entry ahead is replaced in its place by one that blocks no more than it did. So from the moment of that answer
// until the entry goes, no other exclusive entry of the queue can be granted. The entry goes when it is removed, which
// its holder alone does, after the hold has ended; or with its session.
//
// A session ends here before it ends there. Its deadline counts from the moment at which a renewal was sent, the server's
// from when it was processed, which is later; see [Session]. So when the service gives the place to the next, every
// hold on the old entry says that it is lost, if it is asked. What is not asked is not told: a goroutine that was stopped
// between looking at the clock and writing is beyond any lock service, and the reason for fencing tokens.
//
// # Why no wake-up is missed
//
// A waiter waits on the entries that its rule names, its blockers. Each rule promises that while all of them live
// unchanged the waiter may not run, whatever else happens in the queue. So the waiter has to act only once one of them
// is gone or changed, and that is what [Store].Wait reports, also if it happened before the call. That an event comes
// twice, late or for no reason does no harm: it is a hint, after which the queue is read again. It may tell of a
// waiter that gave up rather than of a holder that released; then the rule names another blocker. And should an event
// be lost for a reason nobody thought of, the waiter looks again by itself, after 30 to 45 seconds.
//
// One release wakes one waiter, for a rule that lets any entry block names only the nearest one.
//
// # Why a token never goes back
//
// A hold's token is made of the revision at which the service created its entry, and the turn within the grant. An entry
// is granted only after all exclusive entries ahead of it, with lower revisions, have gone; and the revisions of a
// service never go back, also when it restarts or a session is replaced, for a waiter whose session is lost joins again
// with a new entry at the tail. Within a grant each turn starts after the one before has ended, with a number one
// higher. So of two exclusive holders of one path, the later has the higher token.
//
// # What is never lost
//
// A request whose answer did not come may have been carried out. An entry that was made in that way would block
// everybody, the one who made it included, for as long as its session lives. So every attempt to join has an id of its
// own; after an unknown outcome the Store asks for that id, or makes the same request again in a way that cannot make
// two; and when the caller has gone, removal goes on behind it until the entry is gone or its session is over.
package recipe
