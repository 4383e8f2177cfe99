package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/farsync/farsync"
)

// CheckTrace returns a Trace for one Store that fails t if it is not told in order what the Store does: each call begins and
// ends once, and waits in between; what it has acquired ends once, after that; the states of the session follow one another;
// and when t is over, for which the Store must be closed, nothing is left that has not ended.
//
// It publishes a note with each entry.
func CheckTrace(t testing.TB) *farsync.Trace {
	c := &traceCheck{TB: t, held: map[string]farsync.TraceCall{}}
	t.Cleanup(c.over)
	return &farsync.Trace{Acquire: c.acquire, Wait: c.wait, Ended: c.ended, Session: c.session, Note: c.note}
}

// A traceCheck is what one Trace has been told.
type traceCheck struct {
	testing.TB

	mu    sync.Mutex
	calls int
	open  int                          // calls that have not ended
	held  map[string]farsync.TraceCall // by kind, path and token
	state farsync.State
}

// A tracedCall is a call that was begun.
type tracedCall struct {
	number      int
	want        farsync.TraceCall
	noted, over bool
}

type tracedCallKey struct{}

func (c *traceCheck) acquire(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.open++
	call := &tracedCall{number: c.calls, want: w}
	return context.WithValue(ctx, tracedCallKey{}, call), func(g farsync.TraceResult) { c.got(call, g) }
}

// call returns the call of a ctx, which must not have ended. The caller holds mu.
func (c *traceCheck) call(ctx context.Context, w farsync.TraceCall, what string) *tracedCall {
	call, _ := ctx.Value(tracedCallKey{}).(*tracedCall)
	if call == nil {
		c.Errorf("trace: %s without the context of a call: %+v", what, w)
		return &tracedCall{}
	}
	if call.over || call.want != w {
		c.Errorf("trace: %s of %+v for %+v, ended: %t", what, w, call.want, call.over)
	}
	return call
}

func (c *traceCheck) note(ctx context.Context, w farsync.TraceCall) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.call(ctx, w, "Note")
	if call.noted || w.Kind == farsync.KindCandidate {
		c.Errorf("trace: a second Note, or that of a candidate: %+v", w)
	}
	call.noted = true
	return fmt.Sprint("call ", call.number)
}

func (c *traceCheck) wait(ctx context.Context, w farsync.TraceCall, b farsync.TraceWait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.call(ctx, w, "Wait")
	if w.Try || b.Ahead < 1 || !call.noted && w.Kind != farsync.KindCandidate {
		c.Errorf("trace: %+v waits behind %d, noted: %t", w, b.Ahead, call.noted)
	}
}

func (c *traceCheck) got(call *tracedCall, g farsync.TraceResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if call.over || g.Waited < 0 || g.Err == nil && g.Token <= 0 || (g.Err != nil || g.Local || call.want.Try) && g.Rejoined != 0 ||
		g.Err != nil && (g.Token != 0 || g.Local) {
		c.Errorf("trace: %+v ends with %+v; has ended before: %t", call.want, g, call.over)
	}
	call.over = true
	if g.Err != nil {
		return
	}
	key := tracedKey(call.want, g.Token)
	if _, twice := c.held[key]; twice {
		c.Errorf("trace: %s is held twice", key)
	}
	c.held[key] = call.want
}

func (c *traceCheck) ended(e farsync.TraceEnd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := tracedKey(e.TraceCall, e.Token)
	if w, ok := c.held[key]; !ok || w != e.TraceCall {
		c.Errorf("trace: %s ends and is not held: %+v", key, e)
	}
	delete(c.held, key)
	released := errors.Is(e.Err, farsync.ErrReleased)
	if e.Held < 0 || !released && !errors.Is(e.Err, farsync.ErrLost) && !errors.Is(e.Err, farsync.ErrClosed) ||
		e.Unconfirmed != nil && !released {
		c.Errorf("trace: %s ends: %+v", key, e)
	}
}

func (c *traceCheck) session(h farsync.TraceSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := h.Was == farsync.StateConnected || h.Was == farsync.StateRecovering
	lived := answered || h.Was == farsync.StateSuspended
	follows := map[farsync.State]bool{
		farsync.StateConnected:  lived != h.Opened && h.Cause == nil,
		farsync.StateRecovering: lived != h.Opened && h.Cause == nil,
		farsync.StateSuspended:  answered && h.Cause != nil,
		farsync.StateLost:       lived && h.Cause != nil,
	}
	if h.Was != c.state || !follows[h.State] || h.TTL <= 0 || h.RoundTrip < 0 {
		c.Errorf("trace: the session was %v, and now: %+v", c.state, h)
	}
	c.state = h.State
}

// over runs when the test is over.
func (c *traceCheck) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 || len(c.held) > 0 || c.state != 0 && c.state != farsync.StateLost {
		c.Errorf("trace: %d calls have not ended, the session is %v, and these are held: %v", c.open, c.state, c.held)
	}
}

func tracedKey(w farsync.TraceCall, token farsync.Token) string {
	return fmt.Sprintf("%v %s token %d", w.Kind, w.Path, token)
}
