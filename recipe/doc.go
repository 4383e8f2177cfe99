// Package recipe is what all of farsync's primitives and all of its backends share: the rules that decide which entry waits, the
// one loop that waits, what is held, and the one [Store] that keeps it all alive on a service that fails. Users of farsync
// do not need it. To bring farsync to another service, read package driver; Open makes a Store of a driver.
//
// # The parts
//
//	mutex.go    Mutex.Lock(ctx)                              a Lease
//	               │                                            ▲
//	recipe      Gate: a turn of this process, or            a Hold on a grant
//	               │                                            ▲
//	            Store: join, wait until the Rule                │ nothing ahead blocks
//	               │   finds no blocker; retry, settle,         │
//	               │   remove, renew                            │
//	               ▼                                            │
//	driver      Session: one attempt                         a View
//	               │                                            ▲
//	            the wire                                     the service
//
// A [Rule] is a pure function: from the entries ahead of an entry it tells which ones block it. A Store joins, waits and
// looks again until nothing blocks. The entry at the end of that is a grant; a [Hold] is one local use of it, and a [Gate]
// lets the goroutines of a process take turns on one. A [Queue] is for those that look at a queue without standing in it.
//
// # Why two never hold at once
//
// An entry is granted when an answer of the service shows that it exists and that the rule finds nothing ahead of it
// that blocks. Two properties of the queue make that enough. Order is by creation, which the service serializes, so of
// two exclusive entries exactly one is ahead. And places ahead only shrink: no entry joins ahead of another later; at
// most an entry ahead is replaced in its place by one that blocks no more than it did. So from the moment of that answer
// until the entry goes, no other exclusive entry of the queue can be granted. The entry goes when its holder removes it,
// after the hold has ended; or with its session.
//
// A session ends here before it ends at the service. Its deadline counts from the moment at which a renewal was sent, the
// service's from when it was processed, which is later. So when the service gives the place to the next entry, every hold
// on the old one says that it is lost, if it is asked. A goroutine that was stopped between looking at the clock and
// writing is beyond any lock service, and the reason for fencing tokens.
//
// # Why no wake-up is missed
//
// A waiter waits on the entries that its rule names, its blockers. Each rule promises that while all of them live
// unchanged the waiter may not run, whatever else happens in the queue. So the waiter has to act only once one of them
// is gone or changed, and that is what a watch of the driver reports, also if it happened before the call. That an event
// comes twice, late or for no reason does no harm: it is a hint, after which the queue is read again, unless the driver
// has brought a proof along, which is such a read. An event may tell of a waiter that gave up rather than of a holder that
// released; then the rule names another blocker. And should an event be lost for an unknown reason, the waiter looks again
// by itself, after 30 to 45 seconds.
//
// One release wakes one waiter, for a rule that lets any entry block names only the nearest one.
//
// # One family a queue
//
// The rules of a family say nothing of another's entries: a reader beside a permit, for instance. So a queue belongs to the
// family of its oldest entry. An entry that finds another family ahead of it asks for the oldest entry of all. If that is of
// its own family, what is ahead is about to be refused, and it waits. Otherwise it is refused itself. As each entry asks
// only once, and an entry that is refused leaves, no waiter is refused for one that came later.
//
// # Why a token never goes back
//
// A hold's token is made of the revision at which the service created its entry, and the turn within the grant. An entry
// is granted only after all exclusive entries ahead of it, with lower revisions, have gone; and the revisions of a
// service never go back, also when it restarts or a session is replaced, for a waiter whose session is lost joins again
// with a new entry at the tail. Within a grant each turn starts after the one before has ended, with a number one
// higher. So of two exclusive holders of one path, the later has the higher token.
//
// # What an answer that did not come means
//
// A request without an answer may have been carried out, may not have been, and may still be: it can wait in the network
// or in a server's queue for any time. The Store sends it again, and one function decides what its attempts mean together.
// A refusal speaks for its own attempt alone. After an attempt of unknown outcome:
//
//   - A create is sent again under the same ID, which cannot make two entries at once. If the caller has gone, the entry is
//     removed in the background. Once an entry with such a past was removed, a late attempt may create it once more, and it
//     would block its queue for as long as the session lives. So from then on until its end the Store compares what the
//     session owns with these IDs, and removes what has come late.
//   - A delete that finds nothing may have succeeded before. The hold was held to the end.
//   - A replacement names the version that it replaces, so a late one changes nothing. The entry is read before the next
//     attempt.
//   - A write of a register names its version, too.
//
// Removal in the background ends when the service has confirmed it, or with the session. No refusal ends it.
package recipe
