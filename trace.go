package farsync

import (
	"context"
	"slices"
	"time"

	"github.com/farsync/farsync/recipe"
)

// A Trace is told what the primitives of a Store do, for metrics, traces and pages. Each of its functions may be nil.
// It may be shared by several Stores.
//
// The functions must be safe for concurrent use, and cannot change what happens. A function that blocks or panics costs
// no lease, and keeps Close for a second at most:
//
//   - Acquire, what that returns, Note, and the Ended of a lease that is released are part of the call of the goroutine
//     that acquires or releases. If they block, that call does, and a lock that it has acquired is held until the
//     session ends.
//   - Wait has a goroutine of its own. The call goes on when it returns, or after 2 seconds. While 64 calls of Wait
//     have not returned by then, there are no others.
//   - Session, and Ended in all other cases, are called by one goroutine of the Store, in order. While they block 256
//     calls wait. Of more, the oldest are left out, which is logged.
//
// A panic is logged, with its stack, and the call goes on as if the function had returned nothing. Acquire, what that
// returns, Note and Ended must not call runtime.Goexit, as t.FailNow does: it ends the goroutine that acquires or
// releases. A call that was under way then keeps its place until the Store is closed.
//
// The functions may use the Store. A Close by Wait or Session, or by Ended of a lease that was not released, begins the
// end and returns nil at once.
type Trace struct {
	// Acquire is called when a call begins that is to acquire: Lock, TryLock, Acquire, Campaign and all that is made of
	// them. It returns ctx or a context that is derived from it, with which the call goes on, and a function that is
	// called with the result when the call ends, or nil. A call that enters a ReentrantMutex again acquires nothing, nor
	// does a call that is refused because the lease in its ctx would wait for itself.
	Acquire func(ctx context.Context, w TraceCall) (context.Context, func(TraceResult))
	// Wait is called when the call has found that it has to wait for others: never for a call that tries, once for most,
	// and again if it waits anew because the session was lost. ctx is the context of Acquire. It may come after the call has
	// ended, where a Trace before it, of those that JoinTraces was given, blocks.
	Wait func(ctx context.Context, w TraceCall, b TraceWait)
	// Ended is called when what was acquired has ended, once: released, or lost, or closed with its Store. For a
	// ReentrantMutex that is when the last of the leases that were entered under one another has ended. A caller who
	// waited for it may have acquired it before.
	Ended func(e TraceEnd)
	// Session is called when the session of the Store was opened or renewed, is overdue, and when it is over.
	Session func(h TraceSession)
	// Note returns a text that is published with the entry, for the waiters behind it to see: a traceparent, for example.
	// It is called once for each call, after Acquire, with its ctx. A note of more than 256 bytes, or a note that is not
	// printable text, is left out. Callers who share an entry have one note, the note of the first. A candidate has none.
	// A client who may read the queue may read the note.
	Note func(ctx context.Context, w TraceCall) string
}

// A TraceCall is what a call asks for.
type TraceCall struct {
	// Store is the Name option of the Store.
	Store string
	// Path is the path of the lock, as the program has given it, valid or not.
	Path string
	// Kind is what is asked for, and Units how many units of a semaphore, 1 in all other cases.
	Kind  Kind
	Units int64
	// Try is true if the call does not wait for others.
	Try bool
}

// A TraceResult is how a call has ended.
type TraceResult struct {
	// Err is nil if it has acquired, and otherwise what its caller gets, but for operation and path.
	Err error
	// Token is the token of the lease, 0 if there is none.
	Token Token
	// Waited is how long the call has taken.
	Waited time.Duration
	// Local is true if another goroutine of this process has handed the lock on, without a word to the service.
	Local bool
	// Rejoined is how often it has lost its place in the queue, mostly with the session, and has joined again at the tail.
	// It is 0 if Local is true, or if the call has failed.
	Rejoined int
}

// A TraceWait is what a call waits behind, as far as is known when it begins to wait.
type TraceWait struct {
	// Ahead is how many are ahead of it: entries of the queue; or, if Local is true, goroutines of this process that wait
	// in the same line, and the entry that they all wait for. On etcd, of a hundred and more, it is as many as the Store
	// has seen last.
	Ahead int
	Local bool

	look func(context.Context) (holder, note string)
}

// Holder returns who holds the lock, and the note that the holder has published; empty what is not known. Unless Local
// is true it may cost a request, which takes a second at most: meanwhile the call does not notice if its turn comes.
func (b TraceWait) Holder(ctx context.Context) (holder, note string) { return b.look(ctx) }

// A TraceEnd is how something that was acquired has ended.
type TraceEnd struct {
	TraceCall
	// Token is the token of the lease.
	Token Token
	// Held is for how long it was held.
	Held time.Duration
	// Err is ErrReleased, or wraps ErrLost and the cause, or ErrClosed.
	Err error
	// Unconfirmed is why the service has not confirmed the release in time, or nil.
	Unconfirmed error
}

// A TraceSession is how the session of a Store stands.
type TraceSession struct {
	// Store is the Name option of the Store.
	Store string
	// Was is what State was in the last TraceSession of the Store. It is 0 in the first.
	Was, State State
	// Opened is true if the session is new. Otherwise a session that is StateConnected or StateRecovering was renewed.
	Opened bool
	// TTL is what the service grants.
	TTL time.Duration
	// RoundTrip is how long a renewal took, from when it was sent to its answer. Of a session that was not just renewed it
	// is 0.
	RoundTrip time.Duration
	// Left is how long the leases under the session still had when the renewal came, or have while it is overdue. The less
	// it is, the nearer was a loss.
	Left time.Duration
	// Cause is why the session is overdue or lost. It wraps ErrClosed if the Store was closed.
	Cause error
}

// JoinTraces returns a Trace that tells all of the list, in that order. A nil Trace is left out. The first note that is
// not empty is published. If a function panics, the Traces after it are not told.
func JoinTraces(list ...*Trace) *Trace {
	list = slices.DeleteFunc(slices.Clone(list), func(t *Trace) bool { return t == nil })
	if len(list) == 0 {
		return nil
	}
	return &Trace{
		Acquire: func(ctx context.Context, w TraceCall) (context.Context, func(TraceResult)) {
			ends := make([]func(TraceResult), len(list))
			for i, t := range list {
				ctx, ends[i] = t.acquire(ctx, w) //nolint:fatcontext // one for each of the list
			}
			return ctx, func(g TraceResult) {
				for _, end := range ends {
					if end != nil {
						end(g)
					}
				}
			}
		},
		Wait: func(ctx context.Context, w TraceCall, b TraceWait) {
			for _, t := range list {
				t.wait(ctx, w, b)
			}
		},
		Ended: func(e TraceEnd) {
			for _, t := range list {
				t.ended(e)
			}
		},
		Session: func(h TraceSession) {
			for _, t := range list {
				t.session(h)
			}
		},
		Note: func(ctx context.Context, w TraceCall) string {
			for _, t := range list {
				if note := t.note(ctx, w); note != "" {
					return note
				}
			}
			return ""
		},
	}
}

func (t *Trace) acquire(ctx context.Context, w TraceCall) (context.Context, func(TraceResult)) {
	if t.Acquire == nil {
		return ctx, nil
	}
	return t.Acquire(ctx, w)
}

func (t *Trace) wait(ctx context.Context, w TraceCall, b TraceWait) {
	if t.Wait != nil {
		t.Wait(ctx, w, b)
	}
}

func (t *Trace) ended(e TraceEnd) {
	if t.Ended != nil {
		t.Ended(e)
	}
}

func (t *Trace) session(h TraceSession) {
	if t.Session != nil {
		t.Session(h)
	}
}

func (t *Trace) note(ctx context.Context, w TraceCall) string {
	if t.Note == nil {
		return ""
	}
	return t.Note(ctx, w)
}

// below returns the Trace that package recipe tells, nil for nil.
func (t *Trace) below() *recipe.Trace {
	if t == nil {
		return nil
	}
	b := &recipe.Trace{}
	if acquire := t.Acquire; acquire != nil {
		b.Acquire = func(ctx context.Context, w recipe.Want) (context.Context, func(recipe.Got)) {
			ctx, end := acquire(ctx, wantOf(w))
			if end == nil {
				return ctx, nil
			}
			return ctx, func(g recipe.Got) { end(TraceResult{g.Err, Token(g.Token), g.Waited, g.Local, g.Rejoined}) }
		}
	}
	if wait := t.Wait; wait != nil {
		b.Wait = func(ctx context.Context, w recipe.Want, b recipe.Behind) {
			wait(ctx, wantOf(w), TraceWait{b.Ahead, b.Local, b.Look})
		}
	}
	if ended := t.Ended; ended != nil {
		b.Ended = func(e recipe.End) { ended(TraceEnd{wantOf(e.Want), Token(e.Token), e.Held, e.Err, e.Unconfirmed}) }
	}
	if session := t.Session; session != nil {
		b.Session = func(h recipe.Health) {
			session(TraceSession{h.Store, State(h.Was), State(h.State), h.Opened, h.TTL, h.RoundTrip, h.Left, h.Cause})
		}
	}
	if note := t.Note; note != nil {
		b.Note = func(ctx context.Context, w recipe.Want) string { return note(ctx, wantOf(w)) }
	}
	return b
}

func wantOf(w recipe.Want) TraceCall { return TraceCall{w.Store, w.Path, Kind(w.Kind), w.Units, w.Try} }
