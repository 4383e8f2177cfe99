package recipe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Trace is told what the primitives of a Store do, for metrics, traces and pages. Each of its functions may be nil. It may be
// shared by several Stores.
//
// The functions must be safe for concurrent use, and cannot change what happens. A function that blocks or panics costs
// no lease, and keeps Close for a second at most:
//
//   - Acquire, what that returns, Note, and the Ended of a lease that is released are part of the call of the goroutine that
//     acquires or releases. If they block, that call does, and what it has acquired is held until the session ends.
//   - Wait has a goroutine of its own. The call goes on when it returns, or after 2 seconds. While 64 calls of Wait have not
//     returned by then, there are no others.
//   - Session, and Ended in all other cases, are called by one goroutine of the Store, in order. While they block 256
//     calls wait. Of more, the oldest are left out, which is logged.
//
// A panic is logged, with its stack, and the call goes on as if the function had returned nothing. Acquire, what that
// returns, Note and Ended must not call runtime.Goexit, as t.FailNow does: it ends the goroutine that acquires or
// releases. What was under way then keeps its place until the Store is closed.
//
// The functions may use the Store. A Close by Wait or Session, or by Ended of a lease that was not released, begins the
// end and returns nil at once.
type Trace struct {
	// Acquire is called when a call begins that is to acquire: Lock, TryLock, Acquire, Campaign and all that is made of
	// them. It returns ctx or one that is derived from it, with which the call goes on, and what is called with the result
	// when the call ends, or nil. A call that enters a ReentrantMutex again acquires nothing, nor does one that is refused because
	// the lease in its ctx would wait for itself.
	Acquire func(ctx context.Context, w Want) (context.Context, func(Got))
	// Wait is called when the call has found that it has to wait for others: never for a call that tries, once for most, and
	// again if it waits anew because the session was lost. ctx is that of Acquire.
	Wait func(ctx context.Context, w Want, b Behind)
	// Ended is called when what was acquired has ended, once: released, or lost, or closed with its Store. For a ReentrantMutex that
	// is when the last lease of an owner has ended. Whoever waited for it may have acquired it before.
	Ended func(e End)
	// Session is called when the session of the Store was opened or renewed, is overdue, and when it is over.
	Session func(h Health)
	// Note returns a text that is published with the entry, for those that wait behind it to see: a traceparent, for example. It
	// is called once for each call, after Acquire, with its ctx. A note of more than 256 bytes, or one that is not printable
	// text, is left out. Callers who share an entry have one note, that of the first. A candidate has none. Whoever may read
	// the queue may read the note.
	Note func(ctx context.Context, w Want) string
}

// A Want is what a call asks for.
type Want struct {
	// Store is the Name option of the Store.
	Store string
	// Path is that of the lock. It is as the program has given it, valid or not.
	Path string
	// Kind is what is asked for, and Units how many units of a semaphore, 1 in all other cases.
	Kind  driver.Kind
	Units int64
	// Try is true if the call does not wait for others.
	Try bool
}

// A Got is how a call has ended.
type Got struct {
	// Err is nil if it has acquired, and otherwise what its caller gets, but for operation and path.
	Err error
	// Token is that of the lease, 0 if there is none.
	Token int64
	// Waited is how long the call has taken.
	Waited time.Duration
	// Local is true if another goroutine of this process has handed the lock on, without a word to the service.
	Local bool
	// Rejoined is how often it has lost its place in the queue, mostly with the session, and has joined again at the tail. It is 0
	// if Local is true, or if the call has failed.
	Rejoined int
}

// A Behind is what a call waits behind, as far as is known when it begins to wait.
type Behind struct {
	// Ahead is how many are ahead of it: entries of the queue; or, if Local is true, goroutines of this process that wait in
	// the same line, and what they all wait for. On etcd, of a hundred and more, it is as many as the Store has seen last.
	Ahead int
	Local bool

	look func(context.Context) (holder, note string)
}

// Holder returns what holds the lock, and the note that it has published; empty what is not known. Unless Local is true it may
// cost a request, which takes a second at most: meanwhile the call does not notice if its turn comes.
func (b Behind) Holder(ctx context.Context) (holder, note string) { return b.look(ctx) }

// An End is how something that was acquired has ended.
type End struct {
	Want
	// Token is that of the lease.
	Token int64
	// Held is for how long it was held.
	Held time.Duration
	// Err is ErrReleased, or wraps ErrLost and the cause, or ErrClosed.
	Err error
	// Unconfirmed is why the service has not confirmed the release in time, or nil.
	Unconfirmed error
}

// A Health is how the session of a Store stands.
type Health struct {
	// Store is the Name option of the Store.
	Store string
	// Was is what State was in the last Health of the Store. It is 0 in the first.
	Was, State State
	// Opened is true if the session is new. Otherwise one that is Connected or Recovering was renewed.
	Opened bool
	// TTL is what the service grants.
	TTL time.Duration
	// RoundTrip is how long a renewal took, from when it was sent to its answer. Of a session that was not just renewed it is 0.
	RoundTrip time.Duration
	// Left is how long the leases under the session still had when the renewal came, or have while it is overdue. The less it
	// is, the nearer was a loss.
	Left time.Duration
	// Cause is why the session is overdue or lost. It wraps ErrClosed if the Store was closed.
	Cause error
}

// Traces returns a Trace that tells all of them, in that order. Nil ones are left out. Of the notes the first that is
// not empty is published. If a function panics, the Traces after it are not told.
func Traces(list ...*Trace) *Trace {
	list = slices.DeleteFunc(slices.Clone(list), func(t *Trace) bool { return t == nil })
	if len(list) == 0 {
		return nil
	}
	return &Trace{
		Acquire: func(ctx context.Context, w Want) (context.Context, func(Got)) {
			ends := make([]func(Got), len(list))
			for i, t := range list {
				ctx, ends[i] = t.acquire(ctx, w) //nolint:fatcontext // one for each of the list
			}
			return ctx, func(g Got) {
				for _, end := range ends {
					if end != nil {
						end(g)
					}
				}
			}
		},
		Wait: func(ctx context.Context, w Want, b Behind) {
			for _, t := range list {
				t.wait(ctx, w, b)
			}
		},
		Ended: func(e End) {
			for _, t := range list {
				t.ended(e)
			}
		},
		Session: func(h Health) {
			for _, t := range list {
				t.session(h)
			}
		},
		Note: func(ctx context.Context, w Want) string {
			for _, t := range list {
				if note := t.note(ctx, w); note != "" {
					return note
				}
			}
			return ""
		},
	}
}

func (t *Trace) acquire(ctx context.Context, w Want) (context.Context, func(Got)) {
	if t.Acquire == nil {
		return ctx, nil
	}
	return t.Acquire(ctx, w)
}

func (t *Trace) wait(ctx context.Context, w Want, b Behind) {
	if t.Wait != nil {
		t.Wait(ctx, w, b)
	}
}

func (t *Trace) ended(e End) {
	if t.Ended != nil {
		t.Ended(e)
	}
}

func (t *Trace) session(h Health) {
	if t.Session != nil {
		t.Session(h)
	}
}

func (t *Trace) note(ctx context.Context, w Want) string {
	if t.Note == nil {
		return ""
	}
	return t.Note(ctx, w)
}

// get is how every hold is got. What a Trace takes is on the stack of no caller without one.
func (s *Store) get(ctx context.Context, r *Request) (*Hold, error) {
	if s.options.Trace != nil {
		return s.traced(ctx, r)
	}
	return s.admitted(ctx, r)
}

func (s *Store) traced(ctx context.Context, r *Request) (*Hold, error) {
	w := s.want(*r)
	began := time.Now()
	ctx, end := s.tellAcquire(ctx, w)
	if r.Kind != driver.Candidate {
		r.note = checkedNote(s.tellNote(ctx, w))
	}
	h, err := s.admitted(ctx, r)
	got := Got{Err: err, Waited: time.Since(began)}
	if err == nil {
		if got.Token, got.Local = h.token(), h.turn > 0; !got.Local {
			got.Rejoined = h.grant.place.Load().before
		}
	}
	if end != nil {
		s.tellGot(end, got)
	}
	if err == nil {
		s.follow(h, w)
	}
	return h, err
}

func (s *Store) admitted(ctx context.Context, r *Request) (*Hold, error) {
	if err := admit(ctx, r); err != nil {
		return nil, err
	}
	began := s.begin()
	h, err := s.enter(ctx, r)
	if err == nil {
		s.noteAcquired(h, began)
	}
	return h, err
}

func (s *Store) want(r Request) Want {
	return Want{Store: s.options.Name, Path: r.Queue, Kind: r.Kind, Units: r.Units, Try: r.Try}
}

// traceWait says that a call waits in the queue, as w. What is carried for a line has no caller: each of the line has said that
// it waits.
func (s *Store) traceWait(ctx context.Context, r *Request, w *waiting) {
	if s.options.Trace == nil || s.options.Trace.Wait == nil || r.carried {
		return
	}
	in := w.place.in
	in.mu.Lock()
	behind := w.behind
	in.mu.Unlock()
	b := Behind{Ahead: max(w.place.ahead, w.ahead(behind))}
	b.look = func(ctx context.Context) (string, string) {
		if in.silence() != nil {
			return "", "" // nobody holds
		}
		holder := behind
		if b.Ahead > 1 || len(holder.Value) == 0 {
			holder = s.head(ctx, in, w.place.entry.Queue)
		}
		if holder.ID == w.place.entry.ID {
			return "", "" // what it waited for has gone
		}
		name, _, note := WordsOf(holder)
		return name, note
	}
	s.teller.wait(ctx, s.want(*r), b)
}

// traceLine says that a call waits in the line of its gate.
func (g *gate) traceLine(ctx context.Context, w *waiter) {
	if t := g.store.options.Trace; t != nil && t.Wait != nil {
		g.tellLine(ctx, w)
	}
}

func (g *gate) tellLine(ctx context.Context, w *waiter) {
	want := g.store.want(g.request())
	want.Units = w.units
	g.store.teller.wait(ctx, want, Behind{Ahead: w.ahead + 1, Local: true, look: func(context.Context) (string, string) {
		holder := g.side().holder()
		return holder.holder, holder.note
	}})
}

// traceSession says how the session stands.
func (s *Store) traceSession(h Health) {
	if s.options.Trace == nil || s.options.Trace.Session == nil {
		return
	}
	h.Store = s.options.Name
	s.teller.tell(telling{health: h})
}

// A tenure is a turn, from when its Trace was told that it was acquired until it is told that it has ended.
type tenure struct {
	want   Want
	hold   *Hold       // its first
	leases int         // that were not released. Guarded by the session's mu.
	others atomic.Bool // a goroutine of the Store releases it, and is not to wait for the Trace
}

// follow sees to it that the end of h is told.
func (s *Store) follow(h *Hold, w Want) {
	if s.options.Trace.Ended == nil {
		return
	}
	h.tenure = &tenure{want: w, hold: h, leases: 1}
	in := h.grant.in()
	in.mu.Lock()
	if in.tenures == nil {
		in.tenures = map[*tenure]bool{}
	}
	in.tenures[h.tenure] = true
	in.mu.Unlock()
	// If it has been lost before it was there to be found, that is told here, and otherwise by what ends the life of its grant.
	if why := h.ended(); why != nil {
		h.conclude(why, nil, time.Now())
	}
}

// conclude tells that h has ended. It is told once for each tenure, when all of its holds were released or it was lost.
func (h *Hold) conclude(why, unconfirmed error, at time.Time) {
	t := h.tenure
	if t == nil || !h.grant.in().departs(t, errors.Is(why, ErrReleased)) {
		return
	}
	end := h.ending(why, unconfirmed, at)
	if t.others.Load() {
		h.grant.store.teller.tell(telling{ends: []End{end}})
		return
	}
	h.grant.store.tellEnded(end)
}

func (h *Hold) ending(why, unconfirmed error, at time.Time) End {
	t := h.tenure
	return End{Want: t.want, Token: h.token(), Held: at.Sub(t.hold.since), Err: why, Unconfirmed: unconfirmed}
}

// departs takes a tenure off the list, if it is there and is not kept by another lease than the one that was released.
func (in *session) departs(t *tenure, released bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if t.leases--; released && t.leases > 0 {
		return false
	}
	known := in.tenures[t]
	delete(in.tenures, t)
	return known
}

// joins adds a lease to a tenure, which may be nil.
func (in *session) joins(t *tenure) {
	if t != nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		t.leases++
	}
}

// concludeAll tells of all that has ended with a grant, or with the session if gr is nil.
func (s *Store) concludeAll(in *session, gr *grant) {
	in.mu.Lock()
	var list []*Hold
	for t := range in.tenures {
		if gr == nil || t.hold.grant == gr {
			list = append(list, t.hold)
		}
	}
	in.mu.Unlock()
	at := time.Now()
	var ends []End
	for _, h := range list {
		why := context.Cause(h.grant.life) // h itself may have been released, and entered again before
		if in.departs(h.tenure, errors.Is(why, ErrReleased)) {
			ends = append(ends, h.ending(why, nil, at))
		}
	}
	if ends != nil {
		s.teller.tell(telling{ends: ends})
	}
}
