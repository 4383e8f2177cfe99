package farsynctest

import (
	"context"
	"time"

	"github.com/farsync/farsync/driver"
)

// An OpKind is a request that a driver makes: a method of driver.Service or driver.Session.
type OpKind string

// The requests of a driver.
const (
	OpenSession  OpKind = "open session"
	Renew        OpKind = "renew"
	CloseSession OpKind = "close session"
	EndSession   OpKind = "end session"
	Create       OpKind = "create"
	Ahead        OpKind = "ahead"
	List         OpKind = "list"
	Find         OpKind = "find"
	Replace      OpKind = "replace"
	Delete       OpKind = "delete"
	Watch        OpKind = "watch"
	Register     OpKind = "register"
	SetRegister  OpKind = "set register"
	Owned        OpKind = "owned"
	Tell         OpKind = "tell"
	Heard        OpKind = "heard"
	Touch        OpKind = "touch"
	Survey       OpKind = "survey"
	Outlast      OpKind = "outlast"
)

// An Op is one request.
type Op struct {
	Kind OpKind
	// Queue is the path of the queue. Empty for Owned, for Survey, and for a session's upkeep.
	Queue string
	// Entry is the ID of the entry that the request is about, if it is about one. For Watch it is the entry that waits.
	Entry string
	// Client is the name that was given to Mem.Service or Mem.Open. Empty below an Inject of another backend.
	Client string
	// Attempt is the number that Create was given.
	Attempt int
}

// An Injector decides what goes wrong with the requests of a driver.
type Injector interface {
	// Fault is called before each request, by the goroutine that makes it. It may do anything: wait, cancel a ctx, end a
	// session, remove an entry.
	Fault(ctx context.Context, op Op) Fault
}

// InjectorFunc is a function as an Injector.
type InjectorFunc func(ctx context.Context, op Op) Fault

// Fault calls f.
func (f InjectorFunc) Fault(ctx context.Context, op Op) Fault { return f(ctx, op) }

// A Fault is what becomes of one request. The zero value is None. Faults can be compared.
type Fault struct {
	fate    fate
	after   int
	pause   time.Duration
	outcome driver.Outcome
	err     error
}

type fate uint8

const (
	answered fate = iota
	requestLost
	replyLost
	late
	failed
	silent
	silentAfter
)

// The faults without parameters. With None the request is carried out and answered. LoseRequest has it not carried out, and
// LoseReply has it carried out and not answered: both return an error at once, whose Outcome is Unknown.
var (
	None        = Fault{}
	LoseRequest = Fault{fate: requestLost}
	LoseReply   = Fault{fate: replyLost}
)

// Late returns an error at once, whose Outcome is Unknown. The request is carried out, exactly as it was made, after n
// further requests of the same Service, and its answer is dropped. It is never carried out if its session is closed or
// dropped before. Late Watch and CloseSession are never carried out.
func Late(n int) Fault { return Fault{fate: late, after: n} }

// Refuse returns an error that wraps err, whose Outcome is Refused. The request is not carried out.
func Refuse(err error) Fault { return Fail(driver.Refused, err) }

// Fail returns an error that wraps err and has the given Outcome. The request is not carried out.
func Fail(outcome driver.Outcome, err error) Fault {
	return Fault{fate: failed, outcome: outcome, err: err}
}

// Delay has the request made after d, and answered. It returns an error if ctx ends before.
func Delay(d time.Duration) Fault { return Fault{pause: d} }

// Silence returns when ctx ends, with an error whose Outcome is Unknown. The request is carried out at once, or not.
func Silence(carriedOut bool) Fault {
	if carriedOut {
		return Fault{fate: silentAfter}
	}
	return Fault{fate: silent}
}
