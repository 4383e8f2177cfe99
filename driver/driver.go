// Package driver is the contract of a farsync backend: what a coordination service can do, in single steps.
//
// Users of farsync do not need this package. To bring farsync to another service, implement [Service] and [Session],
// hand the Service to farsync.Open, and run the suite drivertest.RunDriver against it.
//
// # What a driver does, and what it does not
//
// A driver makes one attempt. Each method sends its request once, returns the answer or an error, and returns when ctx
// ends. It does not retry, does not clean up later, does not decide which entry holds a lock, nor when a lease is over.
// All of that is policy, and is written once, in the Store above it. A driver must say how an attempt ended: [Outcome]
// tells a definite no from an attempt that was certainly not carried out, and from an attempt that may have been
// carried out or may still be.
//
// A driver may start goroutines for its own connection and for a client library that knows no contexts. They are
// bounded in number, and Session.Close or Session.Drop joins them.
//
// # The model
//
// A service keeps queues. A queue is a list of entries in the order of their creation, named by a path such as
// /locks/billing. An [Entry] belongs to the session that created it and is removed with it. Two facts about a queue
// carry every argument in farsync:
//
//   - Order. The service serializes creations. After Create has returned revision r, no entry with a lower revision
//     appears in that queue.
//   - Places ahead only shrink. An entry ahead of another is deleted or replaced in its place. Nothing is inserted.
//
// A queue also has a [Register], one short text with a version. Semaphores keep their size there.
package driver

import (
	"context"
	"errors"
	"time"
)

// The answers of a service that are not failures. Methods return them as they are or wrapped. Outcome reports Refused
// for them: nothing was carried out.
var (
	// ErrGone means that the entry is not in its queue.
	ErrGone = errors.New("the entry is gone")
	// ErrConflict means that an entry or a register is not as it was when it was read. Nothing was changed.
	ErrConflict = errors.New("it has changed since it was read")
	// ErrKind means that primitives of another family use the path. A driver returns it only for a client of another
	// program whose entries it cannot show as such; all other cases are decided by the Store.
	ErrKind = errors.New("the path is used as another kind of lock")
)

// An Outcome says what is known of an attempt that failed.
type Outcome uint8

const (
	// Unknown means that the attempt may have been carried out, or may be carried out later. It is the zero value: a
	// driver that cannot tell reports Unknown.
	Unknown Outcome = iota
	// NotDone means that the attempt was not carried out and never will be. Another attempt may succeed.
	// A login that the service refuses is NotDone while a session lives, for a password that has changed is told to the
	// service and to its clients at two moments, and Refused for Open.
	NotDone
	// Refused means that the service has said no. The attempt was not carried out, and the same request would be refused
	// again while things are as they are.
	Refused
	// Expired means that the session is over at the service, and every entry in it with it.
	Expired
	// Closed means that the client under the driver was closed. The service will never be reached again.
	Closed
)

// A Service opens sessions with a coordination service. If it is a fmt.Stringer too, the error of an Open that fails
// has that name.
type Service interface {
	// Open opens a session that the service keeps for about ttl after each renewal. If the answer is lost, the session
	// that may have been opened has no entries and runs out by itself.
	Open(ctx context.Context, ttl time.Duration) (Session, error)

	// End ends a session that the Service has opened, by its Name, and needs nothing of the Session, which was dropped.
	// Once End has returned nil, the session is over at the service as it is after Close: its entries are gone, and a
	// renewal or a Create of the session that arrives only then leaves nothing.
	//
	// It is for requests that arrive late. Renewals that lie unread in a server that hangs renew the session when the
	// server goes on, which may be after the client has given the session up. Its entries would then keep others waiting
	// for another TTL, though nobody holds anything in it. So the caller calls End in the background, and not before all
	// that the session was promised is over: a TTL after the answer to the last renewal that was answered before the
	// session was lost.
	//
	// End may be called again, after nil and after an error. A session that is over is ended, and End returns nil. It
	// leaves other sessions alone, and it never renews: after an error the session lasts no longer than without the call,
	// or than the shortest session that the service grants. End is called only with a name that a Session has returned. A
	// driver whose sessions have no names returns errors.ErrUnsupported.
	End(ctx context.Context, session string) error

	// Outcome says what err, which a method of the Service or of one of its sessions returned, means for that attempt.
	Outcome(err error) Outcome

	// Close releases what the Service itself has opened. It is called once, after the last session has ended. A client
	// that the user has passed in stays open.
	Close() error
}

// A Session is one session at the service. Its methods may be called by many goroutines at once. Once the session has
// ended at the service, Create and Renew return an error whose Outcome is Expired or Closed. Other methods do so too,
// or answer what is true of the service, where the session's entries are gone.
//
// A driver can leave out what [Optional] has: it embeds [Unsupported].
type Session interface {
	Optional

	// NewID returns the ID of an entry that is about to be created. No ID is the beginning of another. The ID was never
	// used before, unless the entry that had it is gone, and no request that this session has sent for that entry can
	// still be carried out. An entry whose ID may be returned again has that ID, with nothing added. It does no I/O.
	NewID(queue string, k Kind, units int64) string

	// Granted returns how long the service keeps the session after a renewal, and the latest moment at which a request
	// was sent that the service has acknowledged in a way that proves a renewal. It never counts from when an answer
	// arrived, for the service began to count earlier. It does no I/O and may be called at any time.
	Granted() (ttl time.Duration, from time.Time)

	// Renew asks the service to keep the session, which nothing else here has to do: a session that is not renewed runs
	// out. After it has returned nil, Granted may have moved. The caller renews every quarter of the granted TTL. It calls
	// Renew again while a call is not answered in time: the new call is to ask another server, if there is another. Entries in
	// prove hold a lock: where a service can answer a renewal without being able to keep the promise, the renewal must be
	// proved with one of them.
	Renew(ctx context.Context, prove []Entry) error

	// Close ends the session at the service, which removes its entries, and returns when nothing of it is running here.
	// An error means that the service has not confirmed the end: the session runs out by itself. It is the last call.
	Close(ctx context.Context) error

	// Drop is Close without a word to the service, for a session that is lost. Its holders may need the time that is
	// left at the service to stop. After it come only calls whose ctx has ended, and Reset, Granted and Name.
	Drop()

	// Create appends e to e.Queue. The caller has set Queue, Kind, Units, Value, Since, and an ID from NewID. Attempt is 0
	// for the first attempt with this ID; if it is higher, an earlier one may have been carried out, and Create must not
	// append a second entry. It must be impossible for two attempts with one ID to leave two entries, but a late first
	// attempt may recreate an entry that was deleted meanwhile.
	//
	// The View has the entry as Self, with its Revision and its final ID, which begins with the ID that was given. If All
	// is false and Entries is empty, the View says nothing about the entries ahead, and the caller asks Ahead. If All is
	// false and Entries is not empty, it is what Ahead shows of what keeps the entry waiting. If Turn is true, Self awaits
	// its turn.
	Create(ctx context.Context, e Entry, attempt int) (View, error)

	// Ahead returns e as it is now, and what is ahead of it. The answer must not be older than the call: an entry
	// that was deleted before the call is not shown as Self. Self may come without its Value. If e.ID is empty, e stands
	// for an entry that would join now, and everything in the queue is ahead of it.
	//
	// If waiting is true, the caller needs only what keeps e waiting, and the View may leave out the other entries. Needed
	// is the nearest entry ahead; for a Read, the nearest that is no Read; for a Permit, all of them. For an e that would
	// join, which waits for none, the oldest is needed in place of the nearest, with its Value if that costs no further
	// request. A service that decides by itself which permits are granted, by the rule that the oldest are while all units
	// fit, may show one Permit in place of all, as long as the oldest entry is a Permit. It has an ID of the driver's
	// making. Its Units are 0 if e is granted, and otherwise more than any semaphore has. That entry is Gone for Watch
	// once e is granted. Where the declared size is not e.Size, a driver that knows shows all, which saves the caller
	// another look. ErrGone means that e is not in the queue.
	Ahead(ctx context.Context, e Entry, waiting bool) (View, error)

	// List returns the entries of a queue, oldest first, with their values; if limit is positive, at least the oldest
	// limit of them. Unlike all other reads it may be answered by a server that is behind the others by a moment. A driver may
	// refuse a queue with an entry that no session will ever remove, by an error that names it, and a queue with an entry of
	// a session that is over, by the error with which the service refuses to remove that entry. Beside such an error the View
	// shows the queue all the same, with that entry; beside any other it is the zero View.
	List(ctx context.Context, queue string, limit int) (View, error)

	// Find returns e as it is now, with Version and Value. ErrGone means that it is not in its queue under its ID.
	Find(ctx context.Context, e Entry) (Entry, error)

	// Replace gives e another kind, another value, or both, in its place in the queue, if its version still is e.Version.
	// A nil value leaves the value as it is. The only change of kind is from Write to Read. ErrConflict means that e has
	// another version, ErrGone that it is gone, errors.ErrUnsupported that the driver cannot change the value of a Write
	// and leave its kind. The entry that is returned keeps its place. If it is of another kind it may have another ID;
	// Find and Delete then know it under its earlier one too, for the answer may be lost.
	Replace(ctx context.Context, e Entry, k Kind, value []byte) (Entry, error)

	// Delete removes e, and no later entry with its ID, and reports whether it was there. An ID that NewID has returned
	// and Create has not confirmed is looked for in a way that sees every attempt that was answered. The View has what
	// stands behind e, if the driver can show it at no cost. If its Turn is true, the caller calls Touch with it.
	Delete(ctx context.Context, e Entry) (v View, found bool, err error)

	// Watch waits until one of the targets may have changed since it was read. It subscribes first and looks second, so
	// that nothing is missed in between: it may return early for no reason, but never late. A driver may rest between the
	// two, for less than the caller lets a silent Watch last. e is the entry on whose behalf the caller waits, or the zero
	// Entry.
	//
	// A nil proof proves nothing, and the caller asks Ahead. A proof is a View that was true at one revision, after the
	// call was made: Self existed, All is true, and Entries is everything that was ahead.
	//
	// Watch calls stands as soon as it has subscribed and looked, once at least, unless it returns before. Until then it
	// is a request like any other: the caller ends ctx if it takes too long, and calls again. From then on it may last for
	// any time.
	//
	// A target that no session will ever remove is refused with an error that names it.
	Watch(ctx context.Context, e Entry, on []Target, stands func()) (proof *View, err error)

	// Register returns the register of a queue. Version is 0 if there is none.
	Register(ctx context.Context, queue string) (Register, error)

	// SetRegister writes the register of a queue, if its version still is the given one, and returns the new version. If
	// head is not the zero Entry, it writes only while head exists. ErrConflict means that nothing was written.
	SetRegister(ctx context.Context, queue, value string, version int64, head Entry) (int64, error)

	// Owned returns the entries of this session in the given queues, at least, in any order. It must see every entry that
	// was created before the call, also by an attempt whose answer was lost. Queues is nil, for all, only where there is a
	// History.
	Owned(ctx context.Context, queues []string) ([]Entry, error)
}
