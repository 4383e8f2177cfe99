package recipe

import "time"

// A Kind says what an entry asks for.
type Kind uint8

// The kinds of entries.
const (
	// Foreign is an entry that somebody else's client made in the queue; it counts as exclusive.
	Foreign Kind = iota
	// Exclusive is a mutex.
	Exclusive
	// Write is the exclusive side of a read/write lock.
	Write
	// Read is the shared side of a read/write lock.
	Read
	// Permit is a number of a semaphore's units.
	Permit
	// Candidate stands for election.
	Candidate
	// Size is no entry: it stands for the size of a queue of permits among what a permit waits for.
	Size
	// Vacant is no entry: it stands for the emptiness of a queue, and changes when somebody joins.
	Vacant
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Exclusive:
		return "exclusive"
	case Write:
		return "write"
	case Read:
		return "read"
	case Permit:
		return "permit"
	case Candidate:
		return "candidate"
	case Size:
		return "size"
	case Vacant:
		return "vacant"
	default:
		return "foreign"
	}
}

// An Entry is one place in a queue, as the Store saw it when it was asked.
type Entry struct {
	// Queue is the path of the queue.
	Queue string
	// ID is what the backend calls the entry. No two entries ever share one, not even two attempts of one call.
	ID string
	// Kind says what the entry asks for.
	Kind Kind
	// Units is how many units a Permit asks for, 1 for all other kinds.
	Units int64
	// Revision orders the entries of the store by creation, for good: it never goes back, also over restarts.
	// etcd: create revision. ZooKeeper: czxid.
	Revision int64
	// Version changes when the entry is changed in its place. 0 where the read that showed the entry does not tell: to
	// wait for such an entry is not to care for changes, but for that of a writer into a reader.
	Version int64
	// Ahead is how many entries were ahead of this one, where the read that showed it tells; else 0. It is a hint for Wait:
	// an entry behind others is not expected to go soon.
	Ahead int
	// Value is who holds or waits, in words, or an election's value. Nil where the read that showed the entry does
	// not carry values.
	Value []byte
	// Since is when the entry joined, by the clock of the server or of the one who joined. Zero where unknown.
	Since time.Time
	// Session is the session the entry lives in. Set on entries that this Store's Join returned, nil on all others.
	Session *Session
}

// Held is what a backend's Guard needs to know of a hold: the entries that must all exist for it to be held. None
// means that it is not held any more, and a guard made of it refuses.
type Held interface {
	Entries() []Entry
}
