package recipe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Trace is told what the primitives of a Store do: see farsync.Trace, which says what its functions may do, and when they are
// called. Each of them may be nil.
type Trace struct {
	Acquire func(ctx context.Context, w Want) (context.Context, func(Got))
	Wait    func(ctx context.Context, w Want, b Behind)
	Ended   func(e End)
	Session func(h Health)
	Note    func(ctx context.Context, w Want) string
}

// A Want is what a call asks for: farsync.TraceCall.
type Want struct {
	Store string
	Path  string
	Kind  driver.Kind
	Units int64
	Try   bool
}

// A Got is how a call has ended: farsync.TraceResult. Token is the token of the lease.
type Got struct {
	Err      error
	Token    int64
	Waited   time.Duration
	Local    bool
	Rejoined int
}

// A Behind is what a call waits behind: farsync.TraceWait. Look is its Holder.
type Behind struct {
	Ahead int
	Local bool
	Look  func(context.Context) (holder, note string)
}

// An End is how something that was acquired has ended: farsync.TraceEnd.
type End struct {
	Want
	Token       int64
	Held        time.Duration
	Err         error
	Unconfirmed error
}

// A Health is how the session of a Store stands: farsync.TraceSession.
type Health struct {
	Store      string
	Was, State State // Was is 0 in the first
	Opened     bool
	TTL        time.Duration
	RoundTrip  time.Duration
	Left       time.Duration
	Cause      error
}

// get acquires a hold. Tracing is split off, to keep the stack of untraced callers small.
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
		noted := *r
		noted.note = checkedNote(s.tellNote(ctx, w))
		r = &noted
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

// traceWait says that a call waits in the queue, as w. A request that is carried for a line has no caller: each caller of the line
// has said that it waits.
func (s *Store) traceWait(ctx context.Context, r *Request, w *waiting) {
	if s.options.Trace == nil || s.options.Trace.Wait == nil || r.carried {
		return
	}
	in := w.place.in
	in.mu.Lock()
	behind := w.behind
	in.mu.Unlock()
	b := Behind{Ahead: max(w.place.ahead, w.ahead(behind))}
	b.Look = func(ctx context.Context) (string, string) {
		if in.silence() != nil {
			return "", "" // nobody holds
		}
		holder := behind
		if b.Ahead > 1 || len(holder.Value) == 0 {
			holder = s.head(ctx, in, w.place.entry.Queue)
		}
		if holder.ID == w.place.entry.ID || in.stuck(w.place.entry.Queue, holder) != nil {
			return "", "" // what it waited for has gone, or was given up
		}
		is := in.holder(holder)
		return is.holder, is.note
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
	g.store.teller.wait(ctx, want, Behind{Ahead: w.ahead + 1, Local: true, Look: func(context.Context) (string, string) {
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

// departs takes a tenure off the list, if it is there and is not kept by another lease than the lease that was released.
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
