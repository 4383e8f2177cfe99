package storetest

// An OpKind says what was asked for: the call of a Store's method, or a request that Mem's client sends to its
// service.
type OpKind string

// The methods of recipe.Store, as Inject and Record see them.
const (
	Peek     OpKind = "Peek"
	Join     OpKind = "Join"
	Blockers OpKind = "Blockers"
	Wait     OpKind = "Wait"
	Leave    OpKind = "Leave"
	Change   OpKind = "Change"
	Resize   OpKind = "Resize"
	SizeOf   OpKind = "Size"
	Entries  OpKind = "Entries"
)

// The requests of Mem's client, as Mem counts and loses them.
const (
	// OpenSession, RenewSession and EndSession are the client's own upkeep.
	OpenSession  OpKind = "open session"
	RenewSession OpKind = "renew session"
	EndSession   OpKind = "end session"
	// Create and Delete are the writes.
	Create OpKind = "create"
	Delete OpKind = "delete"
	Write  OpKind = "write"
	// Read is any read of a queue: what is ahead, all of it, or whether an entry exists.
	Read OpKind = "read"
	// Watch is the start of a watch. It reads, too.
	Watch OpKind = "watch"
)

// An Op is one call or request.
type Op struct {
	Kind OpKind
	// Path is that of the queue. Empty for a session's upkeep.
	Path string
	// Client is the Holder of the MemStore that sends the request. Empty for calls of a Store.
	Client string
	// After tells, for calls of a Store, that the call has been made and its answer is about to be given.
	After bool
}

// A Fault is what becomes of a request to Mem.
type Fault uint8

const (
	// None has the request carried out and answered.
	None Fault = iota
	// LoseRequest has it not carried out. The client cannot tell that from LoseReply.
	LoseRequest
	// LoseReply has it carried out, and the client is told that the connection broke.
	LoseReply
)
