// Package recipe is what all of farsync's primitives and all of its backends share: the rules that decide which entry waits, the
// one loop that waits, what is held, and the one [Store] that keeps it all alive on a service that fails.
//
// It is not for import. Programs have all of it from package farsync, whose Open makes a Store of a driver, too; and no promise covers
// this package: its names change without notice. The package is there to be read, and checked.
//
// # The parts
//
//	mutex.go    Mutex.Lock(ctx)                              a Lease
//	               │                                            ▲
//	recipe      a gate: the line of a path in a Store, and  a Hold on a grant
//	               │                                            ▲
//	            Store: join, wait until a rule                  │ nothing ahead blocks
//	               │   finds no blocker; retry, settle,         │
//	               │   remove, renew                            │
//	               ▼                                            │
//	driver      Session: one attempt                         a View
//	               │                                            ▲
//	            the wire                                     the service
//
// A rule is a pure function: from the entries ahead of an entry it tells which ones block it. A Store joins, waits and
// looks again until nothing blocks. The entry at the end of that is a grant; a [Hold] is one local use of it. A gate has the
// callers of a Store who ask for the same wait in a line of their own, and take turns on a grant. A [Queue] is for callers that look at a queue
// without standing in it.
//
// # Why two never hold at once
//
// An entry is granted when an answer of the service shows that it exists and that the rule finds nothing ahead of it
// that blocks. Two properties of the queue make that enough. Order is by creation, which the service serializes, so of
// two exclusive entries exactly one is ahead. And places ahead only shrink: no entry joins ahead of another later; at
// most an entry ahead is replaced in its place by an entry that blocks no more than it did. So from the moment of that answer
// until the entry goes, no other exclusive entry of the queue can be granted. The entry goes when its holder removes it,
// after the hold has ended; or with its session.
//
// A session ends here before it ends at the service. Its deadline counts from the moment at which a renewal was sent, the
// service's from when it was processed, which is later. So when the service gives the place to the next entry, every hold
// on the old one says that it is lost, if it is asked. A session that was lost here is ended there by its name, for renewals that lay unread may keep
// it, and no sooner than it would have ended without them. A goroutine that was stopped between looking at the clock and
// writing is beyond any lock service, and the reason for fencing tokens.
//
// # Why no wake-up is missed
//
// A waiter waits on the entries that its rule names, its blockers. Each rule promises that while all of them live
// unchanged the waiter may not run, whatever else happens in the queue. So the waiter has to act only once one of them
// is gone or changed, and that is what a watch of the driver reports, also if it happened before the call. That an event
// comes twice, late or for no reason does no harm: it is a hint, after which the queue is read again, unless the driver
// has brought a proof along: such a read, or an event that says as much, as that an entry has gone which was alone ahead. An event may tell of a waiter that gave up rather than of a holder that
// released; then the rule names another blocker. And should an event be lost for an unknown reason, the waiter looks again
// by itself, after 30 to 45 seconds.
//
// One release wakes one waiter, for a rule that lets any entry block names only the nearest one.
//
// A driver may have a waiter told that it is its turn. That is a proof: a turn is given to an entry that exists, when nothing is ahead
// of it. Such a waiter watches no entry ahead, and relies on those who leave: whoever deletes an entry has the head of the queue told, whichever
// that is, unless that watches what was deleted. A request for that is repeated until the head has its turn. A process that dies tells nothing. So the
// waiter looks by itself after a quarter of its TTL or a little later, and from then on watches its predecessor, as all others do.
//
// # What a line of callers changes, and what not
//
// The callers of one Store whose path, kind and declared size agree, and of whom all have other Stores to go on at or
// none, are a cohort, whichever values they use. They wait in a local line, first in first out, and one entry stands in
// the queue for all of them, or a few. To the queue such an entry is like any other: it watches its own blockers, it is granted by the proof
// above, and it is removed once. The difference comes after the grant and within the process: the hold is given to the first
// of the line, whichever of them created the entry, and when it is released, to the next. Four things bound that:
//
//   - Turns on a grant follow one another, for the next turn begins in the step in which the last hold of the turn before
//     ends. So two turns hold no more at once than two grants do. Only the turns of readers share a grant.
//   - A grant has at most 255 turns after the first, and none begins later than 50 ms after the grant. So a waiter of
//     another process is kept, by each grant ahead of it, for no longer than 50 ms and one critical section. The entry is then
//     removed, and the line stands at the tail with a new one.
//   - No goroutine of the line waits for nothing. While there is one, a grant is open, whose turns it is offered, or an entry
//     stands in the queue or is on its way there. Several events could end that: the 255th turn, a guard or a downgrade that keeps
//     the entry for one turn, a release, a refusal, a caller that gives up. Each happens in a step that provides the next
//     entry under the same lock. The holder that just takes its time is a timer, at 50 ms; it covers a session that is lost on the
//     way, too. An entry that is carried for more goroutines than are left in the line is removed.
//   - The entry of a caller that gives up belongs to the line from then on. Nothing is concluded from what its caller has
//     seen: the wait goes on with a look at the queue, which proves what is ahead of it and that it exists.
//
// One entry is too little where turns are slow. When each grant ends by time and serves 2 of 50, the other 48 wait 24 rounds of the
// whole queue, in which every other process has been served. So the next line has as many entries as it takes to serve it in one
// round, going by how many the last grant has served: 16 at most. They are granted like entries of different processes, and each
// serves the line from its head.
//
// A caller whose context stands for a lease does not wait in the line. It holds what others may wait for, and that it waits is
// to be seen in the queue.
//
// Callers who ask for units of a semaphore take no turns: each grant is of one caller, from an entry with as many units.
// Their line only bounds how many entries stand in the queue at a time. So nothing of the above changes for them; see window.
//
// # One family a queue
//
// The rules of a family say nothing of another's entries: a reader beside a permit, for instance. So a queue belongs to the
// family of its oldest entry. An entry that finds another family ahead of it asks for the oldest entry of all. If that is of
// its own family, what is ahead is about to be refused, and it waits. Otherwise it is refused itself. As each entry asks
// only once, and an entry that is refused leaves, no waiter is refused for a waiter that came later.
//
// # Why a token never goes back
//
// A hold's token is made of the revision at which the service created its entry, and the turn within the grant. An entry
// is granted only after all exclusive entries ahead of it, with lower revisions, have gone; and the revisions of a
// service never go back, also when it restarts or a session is replaced, for a waiter whose session is lost joins again
// with a new entry at the tail. Within a grant each turn starts after the turn before has ended, with a number one
// higher, and no turn begins on a grant once a later one of the same gate is held. So of two exclusive holders of one path, the
// later has the higher token.
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
