package driver

import "time"

// A Kind says what an entry asks for.
type Kind uint8

// The kinds of entries.
const (
	// Foreign is an entry that another program's client made in the queue, of a kind that its name does not tell. It
	// counts as exclusive.
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
	default:
		return "foreign"
	}
}

// KindOf returns the kind with a name, for services that keep kinds as text. Any other name belongs to another
// program's kind.
func KindOf(name string) Kind {
	for k := Exclusive; k <= Candidate; k++ {
		if k.String() == name {
			return k
		}
	}
	return Foreign
}

// An Entry is one place in a queue, as the service showed it when it was asked.
type Entry struct {
	// Queue is the path of the queue.
	Queue string
	// ID is what the driver calls the entry. No two entries share one at a time. Over time, an entry is told by its
	// Revision.
	ID string
	// Kind says what the entry asks for.
	Kind Kind
	// Units is how many units a Permit asks for, 1 for all other kinds.
	Units int64
	// Size is how many units the caller of Create declares the queue of a Permit to have. It is 0 in the entries that a
	// driver shows, and where it is not known.
	Size int64
	// Revision orders the entries of the service by creation, for good: it never goes back, also over restarts. Entries
	// ahead of the entry that was asked about may come without it; their order in the View then tells.
	Revision int64
	// Version changes when the entry is changed in its place. 0 where the read that showed the entry does not tell.
	Version int64
	// Ahead is how many entries were ahead of this one, where the read that showed it tells; else 0. It is a hint: an
	// entry that waits itself is not expected to go soon.
	Ahead int
	// Value names the holder or waiter in words, or is the value of a candidate. Nil where the read does not carry values.
	Value []byte
	// Since is when the entry joined, by the clock of the service or of the client that created it. Zero if unknown.
	Since time.Time
	// HeldSince is when the entry came to hold. Only the Store that holds it knows, and sets it; a driver leaves it zero.
	HeldSince time.Time
	// Turn is the number of the turn that is held on the entry, where it is known: to the Store that holds it, which
	// sets it, and to others once the value says it; else 0. A driver leaves it zero.
	Turn int
	// Session is what the service's own tools call the session of the entry, etcdctl or zkCli for instance. Empty where
	// the read does not tell, and if there is none. List tells, where sessions have names.
	Session string
}

// A Register is the one short text that a queue keeps beside its entries.
type Register struct {
	// Value is empty if there is none, and if what stands in its place was written by another program for a purpose of
	// its own that does not stand in the way.
	Value string
	// Version changes with every write. 0 means that there is nothing to compare with: the next write creates it.
	Version int64
}

// A View is a part of a queue, as it was at one moment.
type View struct {
	// Self is the entry that was asked about.
	Self Entry
	// Entries are the entries ahead of Self, or all entries of the queue, oldest first. Callers may share them and must
	// not change them.
	Entries []Entry
	// All is true if Entries is all there were, not a part of them.
	All bool
	// Silent is true if the service grants nothing for a while, to any entry, and nothing in the queue holds. Except from
	// List and Survey, the View then shows an entry of the driver's making, with a kind of the same family as the entry
	// that was asked about. It is Gone for Watch when the service grants again. Where an entry that waits is shown
	// instead, Silent may be false. Session.Silence tells in any case.
	Silent bool
	// Turn is true in a View of Create if Self awaits its turn: the clients whose entries are ahead will tell it, and it
	// watches none of them. It looks by itself if it has waited for long, for one of them may have died. Entries then has
	// some that are ahead. A Permit never awaits its turn. In a View of Delete or Touch, Turn is true if the head of the
	// queue is still to be told that it is its turn, by another Touch.
	Turn bool
	// Register is the queue's, if Self is a Permit. It is no older than Entries.
	Register Register
}

// A Target is what a Watch waits for.
type Target struct {
	Entry Entry
	What  What
	// Alone is true if the entry was all that was ahead of the entry on whose behalf the caller waits. Since no entry
	// joins ahead of the waiting entry later, a driver that has seen the end of the entry ahead, and that the waiting
	// entry existed then, has a proof.
	Alone bool
}

// A What names the change of a Target that ends a Watch.
type What uint8

const (
	// Gone is the end of the entry.
	Gone What = iota
	// Changed is the end of the entry or a change in its place: of its version, or of its kind where Entry.Version is 0.
	Changed
	// Registered is a write of the register of Entry.Queue, whose version was Entry.Version.
	Registered
	// Joined is the first entry in Entry.Queue, which was empty.
	Joined
	// Told is words that were left with the entry, or its end.
	Told
	// Turn is the turn of the entry on whose behalf the caller waits. The driver brings a proof. Entry is an entry that is
	// ahead. It is the only target, and only of a driver whose Create has said so.
	Turn
)
