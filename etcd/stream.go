package etcd

import (
	"context"
	"sync"
	"sync/atomic"
)

// A stream is one on which watches are set up. The client keeps one for each set of metadata, so the number of the stream
// is part of its metadata, and a stream that has become silent is left for the next by counting on.
//
// A stream may well be silent because nothing happens. So each renewal has one of its watches request progress, which the
// server answers at once. The keepalive stream is another than this one, and may be with another member: a member that
// is stopped, or cut off without a word, is noticed by gRPC in 10 seconds or more, if at all.
type stream struct {
	number  int
	life    context.Context // done when the stream is given up or the session has ended, with the cause
	leave   context.CancelCauseFunc
	ask     chan struct{} // has a value when a watch is to request progress
	watches atomic.Int64  // set up or being set up. Invariant: 0 ≤ pending ≤ watches
	pending atomic.Int64  // being set up

	// Every message clears these.
	silent atomic.Bool  // since the first of the pending was begun
	missed atomic.Int64 // requests for progress that were not answered
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

// hear notes a message.
func (on *stream) hear() {
	on.silent.Store(false)
	on.missed.Store(0)
}

// begin returns the stream for one more watch, which calls stood once it is set up, or given up, and then leaves the stream.
func (s *session) begin() (on *stream, stood func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	on = s.watching
	on.watches.Add(1)
	if on.pending.Add(1) == 1 {
		on.silent.Store(true)
	}
	return on, sync.OnceFunc(func() { on.pending.Add(-1) })
}

// probe has progress requested on the stream, or gives the stream up. A renewal that was answered calls it, so a session
// that is in trouble itself does not judge. The caller holds mu.
func (s *session) probe() {
	switch on := s.watching; {
	case on.watches.Load() == 0:
		on.missed.Store(0)
	case on.number >= mostVain && !s.progresses.Load():
	case on.missed.Add(1) > mostMissed: // counted also if no watch took the request: then all of them wait for the server
		s.abandon()
	default:
		select {
		case on.ask <- struct{}{}:
		default:
		}
	}
}

// abandon gives the stream up. All its watches fail, and are set up again on the next. The caller holds mu.
func (s *session) abandon() {
	s.watching.leave(errSilent)
	s.watching = newStream(s.life, s.watching.number+1)
}
