package etcd

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
)

// A stream is one on which watches are set up. The client keeps one for each set of metadata, so the number of the stream
// is part of its metadata, and a stream that has become silent is left for the next by counting on.
//
// A stream may well be silent because nothing happens. So each renewal has one of its watches request progress, which the
// server answers at once. The keepalive stream is another than this one, and may be with another member: a member that
// is stopped, or cut off without a word, is noticed by gRPC in 10 seconds or more, if at all.
type stream struct {
	number int
	life   context.Context // done when the stream is given up or the session has ended, with the cause
	leave  context.CancelCauseFunc
	ask    chan struct{} // has a value when a watch is to request progress
	heard  atomic.Int64  // messages

	// Guarded by the session's mu.
	watches int   // set up or being set up. Invariant: 0 ≤ pending ≤ watches
	pending int   // being set up
	since   int64 // what heard was when the first of these was begun
	known   int64 // what heard was when progress was requested last
	missed  int   // requests for progress since the last message. Invariant: 0 ≤ missed ≤ mostMissed
}

const (
	// mostMissed is how many requests for progress a stream may leave unanswered. One is not enough: a server that is still
	// bringing a watch up to date answers none.
	mostMissed = 2
	// mostVain is how many streams are given up while no such request was ever answered. etcd's own proxy answers none.
	mostVain = 2
)

func newStream(life context.Context, number int) *stream {
	on := &stream{number: number, ask: make(chan struct{}, 1)}
	on.life, on.leave = context.WithCancelCause(life)
	return on
}

// onStream returns a context for one watch on the stream, which ends with ctx, with the stream and with the session. The
// watch calls begun once when it is on, and leave at its end.
func (s *session) onStream(ctx context.Context) (_ context.Context, on *stream, begun, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on = s.watching
	if on.pending == 0 {
		on.since = on.heard.Load()
	}
	on.watches++
	on.pending++
	ctx, end := context.WithCancelCause(
		metadata.AppendToOutgoingContext(outgoing(ctx), "farsync-watches", strconv.Itoa(on.number)))
	unbind := context.AfterFunc(on.life, func() { end(context.Cause(on.life)) })
	begun = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		on.pending--
	})
	return ctx, on, begun, func() {
		unbind()
		end(nil)
		begun()
		s.mu.Lock()
		defer s.mu.Unlock()
		on.watches--
	}
}

// probe has progress requested on the stream, or gives the stream up. A renewal that was answered calls it, so a session
// that is in trouble itself does not judge. The caller holds mu.
func (s *session) probe() {
	on := s.watching
	if heard := on.heard.Load(); heard != on.known || on.watches == 0 {
		on.known, on.missed = heard, 0
	}
	switch {
	case on.watches == 0 || on.number >= mostVain && !s.progresses.Load():
	case on.missed == mostMissed:
		s.abandon()
	default:
		on.missed++
		select {
		case on.ask <- struct{}{}:
		default: // no watch has taken the last request: all of them wait for the server themselves
		}
	}
}

// abandon gives the stream up. All its watches fail, and are set up again on the next. The caller holds mu.
func (s *session) abandon() {
	s.watching.leave(errSilent)
	s.watching = newStream(s.life, s.watching.number+1)
}
