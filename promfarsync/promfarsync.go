package promfarsync

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/census"
)

// Options are the options of a Trace. The zero value of each field is a good choice.
type Options struct {
	// Path returns the class of a path, "/jobs/{id}" for example. There must be few classes. If it is nil, or returns the
	// empty string, no class is told, nor is one of a path that is not valid.
	Path func(path string) string
	// Exemplar returns the labels of an exemplar for a call that has ended, {"trace_id": …} for example, or nil. ctx is
	// the call's.
	Exemplar func(ctx context.Context) prometheus.Labels
}

// Trace registers the metrics and returns a Trace for the option of that name, of any number of Stores. A second Trace
// of a Registerer is an error, with which nothing is registered.
func Trace(r prometheus.Registerer, o *Options) (*farsync.Trace, error) {
	if o == nil {
		o = &Options{}
	}
	c := &counting{Options: *o, metrics: newMetrics()}
	for i, m := range c.all() {
		if err := r.Register(m); err != nil {
			for _, before := range c.all()[:i] {
				r.Unregister(before)
			}
			return nil, err
		}
	}
	return &farsync.Trace{Acquire: c.acquire, Wait: c.wait, Ended: c.ended, Session: c.session}, nil
}

// counting is what a Trace does.
type counting struct {
	Options
	metrics
}

// A call is a call of a lock that was begun.
type call struct {
	labels []string

	mu    sync.Mutex
	waits bool // Invariant: it is counted as waiting if and only if waits && !over.
	over  bool
}

// A callKey is the key of a call in its context, for the Traces that count it: several may.
type callKey struct{ *counting }

func (c *counting) acquire(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
	begun := &call{labels: c.labels(w)}
	for _, g := range []*prometheus.GaugeVec{c.leases, c.waiting} {
		g.WithLabelValues(begun.labels...) // from 0 on: what is absent is not == 0
	}
	ctx = context.WithValue(ctx, callKey{c}, begun)
	return ctx, func(g farsync.TraceResult) { c.got(ctx, begun, g) }
}

func (c *counting) wait(ctx context.Context, _ farsync.TraceCall, _ farsync.TraceWait) {
	begun, _ := ctx.Value(callKey{c}).(*call)
	if begun == nil {
		return
	}
	begun.mu.Lock()
	defer begun.mu.Unlock()
	// A Trace that was joined before this one may have blocked for longer than the call has waited for it.
	if !begun.waits && !begun.over {
		begun.waits = true
		c.waiting.WithLabelValues(begun.labels...).Inc()
	}
}

// waited counts a call that has ended as waiting no more.
func (c *counting) waited(begun *call) {
	begun.mu.Lock()
	defer begun.mu.Unlock()
	if begun.over = true; begun.waits {
		c.waiting.WithLabelValues(begun.labels...).Dec()
	}
}

func (c *counting) got(ctx context.Context, begun *call, g farsync.TraceResult) {
	c.waited(begun)
	if g.Err == nil {
		c.leases.WithLabelValues(begun.labels...).Inc()
		c.unconfirmed.WithLabelValues(begun.labels...) // from 0 on
		c.holds.WithLabelValues(append(begun.labels, released)...)
	}
	outcome, kind := outcomeOf(g.Err)
	observer := c.acquired.WithLabelValues(slices.Concat(begun.labels, []string{outcome, strconv.FormatBool(g.Local), kind})...)
	if c.Exemplar != nil {
		if labels := c.Exemplar(ctx); labels != nil {
			observer.(prometheus.ExemplarObserver).ObserveWithExemplar(g.Waited.Seconds(), labels)
			return
		}
	}
	observer.Observe(g.Waited.Seconds())
}

// released is the end of what was held until it was given back.
const released = "released"

func (c *counting) ended(e farsync.TraceEnd) {
	labels := c.labels(e.TraceCall)
	c.leases.WithLabelValues(labels...).Dec()
	if e.Unconfirmed != nil {
		c.unconfirmed.WithLabelValues(labels...).Inc()
	}
	end := released
	switch {
	case errors.Is(e.Err, farsync.ErrClosed):
		end = "closed"
	case errors.Is(e.Err, farsync.ErrLost):
		end = "lost"
	}
	c.holds.WithLabelValues(append(labels, end)...).Observe(e.Held.Seconds())
}

// Why a session was lost: it could not be renewed in time; or it was ended by the service, or because the process was
// stopped.
const (
	noAnswer = "no_answer"
	ended    = "ended"
)

func (c *counting) session(h farsync.TraceSession) {
	if h.Was == 0 { // the first of the Store. A counter that begins with 1 has not increased.
		c.losses.WithLabelValues(h.Store, noAnswer)
		c.losses.WithLabelValues(h.Store, ended)
	}
	if h.Was != h.State {
		c.count(h.Store, h.Was, -1)
		c.count(h.Store, h.State, 1)
	}
	switch {
	case (h.State == farsync.StateConnected || h.State == farsync.StateRecovering) && !h.Opened:
		c.renewals.WithLabelValues(h.Store).Observe(h.RoundTrip.Seconds())
		c.left.WithLabelValues(h.Store).Observe(h.Left.Seconds())
	case h.State == farsync.StateLost && !errors.Is(h.Cause, farsync.ErrClosed):
		why := ended
		if h.Was == farsync.StateSuspended {
			why = noAnswer
		}
		c.losses.WithLabelValues(h.Store, why).Inc()
	}
}

// count adds to the number of sessions in a state. A session that is lost is not counted.
func (c *counting) count(store string, state farsync.State, n float64) {
	if state != 0 && state != farsync.StateLost {
		c.sessions.WithLabelValues(store, state.String()).Add(n)
	}
}

// labels returns the values of ofLock.
func (c *counting) labels(w farsync.TraceCall) []string {
	return []string{w.Store, w.Kind.String(), census.Class(c.Path, w.Path)}
}

// outcomeOf returns what has become of a call, and one of few words for the error if it is one.
func outcomeOf(err error) (outcome, kind string) {
	switch {
	case err == nil:
		return "held", ""
	case errors.Is(err, farsync.ErrLocked):
		return "locked", ""
	case !errors.Is(err, farsync.ErrUnavailable) &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return "gave_up", ""
	}
	for _, c := range []struct {
		is   error
		word string
	}{
		{farsync.ErrUnavailable, "unavailable"},
		{farsync.ErrClosed, "closed"},
		{driver.ErrKind, "kind"},
		{farsync.ErrPath, "name"},
		{farsync.ErrSize, "size"},
		{farsync.ErrTooLarge, "too_large"},
	} {
		if errors.Is(err, c.is) {
			return "error", c.word
		}
	}
	return "error", "_OTHER"
}
