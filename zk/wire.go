package zk

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errExpired       = errors.New("the server says that the session has expired")
	errShortened     = errors.New("another server keeps the session for less time than the one that opened it")
	errSecondSession = errors.New("the client's session is over: it must not open another")
	errEnded         = errors.New("the session was ended here")
	errFrame         = errors.New("the server sent a frame that is none")
)

// openFor bounds how long one server may take to answer where no session is at stake.
const openFor = 5 * time.Second

// A dialer makes a connection.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// A wire is what the links of one session, which follow one another, have in common.
type wire struct {
	dialer dialer

	asked, least time.Duration // the timeout that is asked for, and the least patience with a server

	// life is the session's own context, not a caller's. Dials and links end with it. Its cause says why it ended.
	life context.Context
	end  context.CancelCauseFunc

	open  chan struct{} // closed when there is a session
	name  string        // of the session; set before open is closed, and never after
	ended atomic.Bool   // the server has confirmed the end

	// Only the goroutine of the session uses these.
	password []byte  // of the session
	user     *Digest // whose the session is; nil until it was opened, and if there is none
	watched  bool    // its watches are all set on the current link
	told     int64   // a zxid up to which they have fired for what has changed

	id        atomic.Int64          // of the session. Invariant: 0 until there is one, and never changed after.
	seen      atomic.Int64          // the zxid of the last reply
	proposals atomic.Bool           // only they prove a renewal, Syncs do not
	last      atomic.Pointer[error] // why there is no connection, for people; nil if there is one

	mu      sync.Mutex
	timeout time.Duration // the granted one. Invariant: it never shrinks.
	proved  time.Time     // what was sent then has renewed the session. Invariant: it never goes back.
	synced  bool          // a Sync has moved proved, and no proposal was answered after it
}

// newWire returns the wire of a session that is to have the timeout asked.
func newWire(asked, least time.Duration, dialer dialer) *wire {
	w := &wire{dialer: dialer, asked: asked, least: least, open: make(chan struct{}), password: make([]byte, 16)}
	w.life, w.end = context.WithCancelCause(context.Background())
	return w
}

// granted returns the timeout of the session, and the latest moment that is proved to have renewed it.
func (w *wire) granted() (timeout time.Duration, proved time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timeout, w.proved
}

// patience is how long a server may take to accept a connection or to answer a handshake: short enough that another
// can be tried while the session lives. There is less of a hurry while there is none, and what was asked for may be far
// from what will be granted.
func (w *wire) patience() time.Duration {
	timeout, _ := w.granted()
	if timeout == 0 {
		return min(max(w.asked/6, time.Second), openFor)
	}
	return max(timeout/6, w.least)
}

// connecting returns a ConnectRequest: version, last zxid seen, timeout, session, password.
func (w *wire) connecting() frame {
	seen := w.seen.Load()
	if w.watched {
		w.watched, w.told = false, seen
	}
	timeout, _ := w.granted()
	return make(frame, 4, 64).number(0).long(seen).number(int32(cmp.Or(timeout, w.asked) / time.Millisecond)).
		long(w.id.Load()).text(string(w.password))
}

// connected is called with the answer: the session's id, 0 if it is over, and its timeout.
func (w *wire) connected(id int64, timeout time.Duration, sent time.Time) error {
	w.last.Store(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch known := w.id.Load(); {
	case id == 0:
		w.expired()
	case known == 0:
		// The leader began to count when it made the session, which was after the request was sent.
		w.id.Store(id)
		w.proved = sent
	case known != id:
		w.end(errSecondSession)
	case timeout < w.timeout:
		// A server with other bounds than the server before. The deadline counts on more time than there is now.
		w.end(errShortened)
	}
	w.timeout = max(timeout, w.timeout)
	return context.Cause(w.life)
}

// lost notes why there is no connection. Until there was one, it keeps what a server has said: that none answered in
// time, later, tells less.
func (w *wire) lost(why error) {
	var network net.Error
	silent := errors.Is(why, errMute) || errors.As(why, &network) && network.Timeout()
	if !silent || happened(w.open) || w.last.Load() == nil {
		w.last.Store(&why)
	}
}

// expired is called when the server says that the session is over.
func (w *wire) expired() {
	w.ended.Store(true)
	w.end(errExpired)
}

// proves reports whether the answer to an operation proves that the leader has heard of what was sent earlier.
// Proposals are answered by a quorum. A Sync is answered by a leader alone, which may have been cut off and replaced.
func (w *wire) proves(op int32) bool {
	return op == opMulti || op == opCreate || op == opSync && !w.proposals.Load()
}

// renewed is called with a moment from which on the server is known to keep the session for its timeout, and with the
// operation that proves it. A proposal proves what Syncs have said before.
func (w *wire) renewed(from time.Time, op int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	later := from.After(w.proved)
	if later {
		w.proved = from
	}
	w.synced = op == opSync && (later || w.synced)
}

// unproved reports whether the deadline of the session rests on the word of a leader alone.
func (w *wire) unproved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced
}
