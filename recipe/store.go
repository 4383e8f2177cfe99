package recipe

import "context"

// A Request is what Join asks for.
type Request struct {
	// Queue is a path that CheckPath accepts.
	Queue string
	// Kind and Units are those of the entry to make. Units is 1 for all kinds but Permit.
	Kind  Kind
	Units int64
	// Size is how many units a queue of permits is declared to have; 0 for all other kinds.
	Size int64
	// Value is what others read, as CheckValue allows it. Nil means the Store's own words for who holds.
	Value []byte
	// Rule decides what the entry waits for.
	Rule Rule
}

// A Store keeps queues of entries in a coordination service. It outlives its sessions: when one is lost it opens
// another by itself, and every method stays usable. An entry lives and dies with the session it was made in.
//
// When the Store is closed, which is each backend's own method, every call in flight and to come returns ErrClosed, and
// its sessions end with that cause.
//
// A queue of permits has a size, which the service keeps with the queue, as two numbers. The declared one is what all who
// use the queue must agree on: the first to join declares it, and it may be declared anew while nobody is in the queue.
// The current one is the declared one until Resize changes it, and it is what counts: a Store applies the rule of a
// permit with the current size in place of the rule's own. A Request with other than the declared size fails with
// ErrSize and both sizes in its text; one for more units than the current size with ErrTooLarge. What blocks a permit
// includes the queue's size, as an entry of kind Size: it changes when Resize does.
//
// Every method may be called by many goroutines at once, returns as soon as ctx ends whatever the servers do, and
// tries again what is worth trying again for as long as ctx lives. So an error is final: it is GaveUp's (ctx has
// ended), ErrClosed, ErrGone where said, or the service's definite refusal, as it came. Errors are not wrapped with
// operation and path; the root package does that.
type Store interface {
	// Peek returns the entries that would block an entry of the request if it joined now, some of them at least; none
	// means that it would be granted. It writes nothing and costs one bounded read where r.Rule.Nearest.
	Peek(ctx context.Context, r Request) ([]Entry, error)

	// Join appends an entry and returns it with the entries that block it, as the rule says. The entry belongs to a
	// session that was alive when the call was made. A Join that fails leaves no entry that outlives its session:
	// whether or not the service has made the entry, its removal has begun when Join returns. If the session ends while
	// the call is under way, Join goes on in the next.
	Join(ctx context.Context, r Request) (e Entry, blockers []Entry, err error)

	// Blockers returns the entries that block e now. An answer without an error proves that e existed when the service
	// was asked, at or after the call. ErrGone: it did not, or its session is over.
	Blockers(ctx context.Context, e Entry, r Rule) ([]Entry, error)

	// Wait returns nil once one of the entries is gone or may have changed since it was read. It may return early for no
	// reason, never late: an entry that was gone or changed when Wait was called, or is at any moment after, ends it. An entry that no session
	// will ever end is refused with an error that names it.
	Wait(ctx context.Context, anyOf ...Entry) error

	// Leave removes an entry that Join returned. Nil: it was removed, or its session ended before that was known, and it
	// goes with it. ErrGone: the first definite answer was that it had gone before, and no attempt of this call can have
	// removed it; also if its session was over when Leave was called. When ctx ends first, GaveUp's error: the removal goes
	// on behind until the entry is gone or its session is over. So with a ctx that has ended, Leave begins the removal and
	// returns at once.
	Leave(ctx context.Context, e Entry) error

	// Change gives an entry that Join returned another kind, another value, or both, in its place in the queue, and
	// returns it as it is then: its ID and Revision may be new. A nil value leaves the value. Of kinds, only Write can
	// be changed, to Read; who waits for the entry is woken. ErrGone: e was gone before, and nothing was changed.
	// When ctx ends first, nobody knows whether the change was made, or will be: ErrUnknown, wrapped with GaveUp's error.
	Change(ctx context.Context, e Entry, k Kind, value []byte) (Entry, error)

	// Resize sets the current size of a queue of permits, and declares it if nobody has. ErrSize as with Join.
	Resize(ctx context.Context, queue string, declared, size int64) error

	// Size returns the sizes of a queue of permits, 0 and 0 if nobody has declared one.
	Size(ctx context.Context, queue string) (declared, current int64, err error)

	// Entries returns all entries of the queue, oldest first, with their values. It may be answered by a server that is
	// behind the others by a moment.
	Entries(ctx context.Context, queue string) ([]Entry, error)
}

// Named is what a Store is beside that has a name: the same in all processes that use the service.
type Named interface{ Name() string }

// An Asker is what a Store is beside that can carry a request to give a lock back from one client to another.
type Asker interface {
	// Ask asks for an entry back that Entries returned. ErrGone: there is nobody to ask any more.
	Ask(ctx context.Context, e Entry) error
	// Asked returns nil once somebody has asked for an entry of ours, also if that was before the call.
	Asked(ctx context.Context, e Entry) error
}

// A State is how a Store stands with its service.
type State uint8

// The states of a Store.
const (
	// Connected: the last renewal of the session was acknowledged.
	Connected State = iota + 1
	// Suspended: a renewal is overdue. Leases are still held, until their deadline.
	Suspended
	// Lost: the session is over, and with it every lease under it. Connected follows once there is a new one.
	Lost
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Connected:
		return "connected"
	case Suspended:
		return "suspended"
	case Lost:
		return "lost"
	default:
		return "unknown"
	}
}
