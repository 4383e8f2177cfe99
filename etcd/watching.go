package etcd

import (
	"cmp"
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
)

// A watching is the stream on which watches are set up. The client keeps one for each set of metadata, so the number of
// the stream is part of its metadata, and a stream that has become silent is left for the next by counting on.
//
// A stream may well be silent because nothing happens. So each renewal has one of its watches request progress, which the
// server answers at once. The keepalive stream is another than this one, and may be with another member: a member that
// is stopped, or cut off without a word, is noticed by gRPC in 10 seconds or more, if at all.
type watching struct {
	number int
	life   context.Context // done when the stream is given up or the session has ended
	leave  context.CancelFunc
	ask    chan struct{} // has a value when a watch is to request progress
	heard  atomic.Int64  // messages

	// Guarded by the session's mu.
	watches int   // set up or being set up
	known   int64 // what heard was when progress was requested last
	missed  int   // requests for progress since the last message. Invariant: 0 ≤ missed ≤ mostMissed
}

const (
	// mostMissed is how many requests for progress a stream may leave unanswered. One is not enough: a server that is still
	// bringing a watch up to date answers none.
	mostMissed = 2
	// mostVain is how many streams are given up while no such request was ever answered. etcd's own proxy answers none.
	mostVain = 2
	// firstPatience bounds the wait for the setup of a watch, and doubles with each that has failed in a row, up to a
	// third of the TTL.
	firstPatience = time.Second
)

func newWatching(life context.Context, number int) *watching {
	w := &watching{number: number, ask: make(chan struct{}, 1)}
	w.life, w.leave = context.WithCancel(life)
	return w
}

// checkWatches has progress requested on the watch stream, or gives the stream up. A renewal that was answered calls it,
// so a session that is in trouble itself does not judge. The caller holds mu.
func (s *session) checkWatches() {
	w := s.watches
	if heard := w.heard.Load(); heard != w.known || w.watches == 0 {
		w.known, w.missed = heard, 0
	}
	switch {
	case w.watches == 0 || s.vain >= mostVain && !s.progresses.Load():
	case w.missed == mostMissed:
		s.vain++
		s.abandon(w)
	default:
		w.missed++
		select {
		case w.ask <- struct{}{}:
		default: // no watch has taken the last request: all of them wait for the server themselves
		}
	}
}

// abandon gives the stream up. All its watches fail, and are set up again on the next. The caller holds mu.
func (s *session) abandon(w *watching) {
	w.leave()
	if s.watches == w {
		s.watches = newWatching(s.life, w.number+1)
	}
}

// patience returns how long the setup of a watch may take.
func (s *session) patience() time.Duration {
	ttl, _ := s.Granted()
	return min(ttl/3, firstPatience<<min(s.impatient.Load(), 10))
}

// onStream returns a context for one watch on the stream, which ends with ctx, with the stream and with the session. A
// stream that is silent for as long as the setup may take is given up.
func (s *session) onStream(ctx context.Context) (context.Context, *watching, context.CancelFunc) {
	patience := s.patience()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches
	w.watches++
	heard := w.heard.Load()
	overdue := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.heard.Load() == heard {
			s.impatient.Add(1)
			s.abandon(w)
		}
	})
	ctx, end := context.WithCancelCause(
		metadata.AppendToOutgoingContext(s.outgoing(ctx), "farsync-watches", strconv.Itoa(w.number)))
	unbind := context.AfterFunc(w.life, func() { end(cmp.Or(s.ended(), errSilent)) })
	return ctx, w, func() {
		overdue.Stop()
		unbind()
		end(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		w.watches--
	}
}
