package farsync

// A Token is a fencing token: a number by which a resource tells a holder that is late from one that came after it.
// Over the exclusive holders of one path it strictly increases, also over restarts of all processes and servers, over
// lost sessions, and over turns that are handed off within a process.
//
// A resource that is to be protected remembers the highest token it has seen and refuses a request with a lower one. A
// read that a write depends on counts as a request: if it does not bring the token along, a late write may still be
// let in between the two.
// The tokens of readers and of permits identify, but do not fence holders at the same time from one another.
//
// Its layout is revision<<8 | turn. The revision is the one at which the store made the lease's entry (etcd: create
// revision, ZooKeeper: czxid); the turn counts how often that entry was handed off within its process. So tokens of
// different stores do not compare, nor do tokens from before and after a store was restored from a backup that set
// its revisions back.
type Token int64

const (
	turnBits    = 8
	maxRevision = 1<<(63-turnBits) - 1
)

func makeToken(revision int64, turn int) Token {
	return Token(revision<<turnBits | int64(turn))
}

// turn is the number of the turn in the token.
func (t Token) turn() int { return int(t & (1<<turnBits - 1)) }

// Revision is the store's revision in the token, for a resource that compares it with revisions of other clients.
func (t Token) Revision() int64 { return int64(t) >> turnBits }
