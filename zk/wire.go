package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/internal/pause"
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

// A wire is what the links of one session, which follow one another, have in common. It is the session's only way to
// the servers: when it is cut, the client library can neither reach one nor open another session.
type wire struct {
	dialer func(ctx context.Context, network, address string) (net.Conn, error)

	asked, least time.Duration // the timeout that is asked for, and the least patience with a server

	// life is the session's own context, not a caller's. Dials and links end with it. Its cause says why it ended.
	life context.Context
	end  context.CancelCauseFunc

	open  chan struct{} // closed when there is a session
	ended atomic.Bool   // the server has confirmed the end

	// creating is called with the path of a create that is about to be sent, and returns the call that makes it, or nil.
	creating func(path []byte) *call

	id        atomic.Int64          // of the session. Invariant: 0 until there is one, and never changed after.
	seen      atomic.Int64          // the zxid of the last reply
	watched   atomic.Bool           // the library's watches are all set on the current link
	told      int64                 // a zxid up to which they have fired for what has changed; only the writing goroutine uses it
	proposals atomic.Bool           // only they prove a renewal, Syncs do not
	links     atomic.Int64          // dialed so far
	current   atomic.Pointer[link]  // nil before the first
	last      atomic.Pointer[error] // why there is no connection, for people; nil if there is one

	mu      sync.Mutex
	timeout time.Duration // the granted one. Invariant: it never shrinks.
	proved  time.Time     // what was sent then has renewed the session. Invariant: it never goes back.
	synced  bool          // a Sync has moved proved, and no proposal was answered after it
}

// newWire returns the wire of a session that is to have the timeout asked.
func newWire(asked, least time.Duration, dialer func(context.Context, string, string) (net.Conn, error)) *wire {
	w := &wire{dialer: dialer, asked: asked, least: least, open: make(chan struct{})}
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

// dial makes the next link.
func (w *wire) dial(network, address string, _ time.Duration) (net.Conn, error) {
	if w.links.Add(1) > 1 {
		// Do not spin over servers that refuse at once.
		_ = pause.For(w.life, 50*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(w.life, w.patience())
	defer cancel()
	conn, err := w.dialer(ctx, network, address)
	if err != nil {
		w.last.Store(&err)
		return nil, err
	}
	l := newLink(w, conn)
	w.current.Store(l)
	if w.life.Err() != nil { // cut may have come before
		l.Close()
		return nil, context.Cause(w.life)
	}
	return l, nil
}

// reconnect closes a connection on which nothing is answered, so that the library tries the next server. A server
// answers the requests of a session in order. So a connection on which answers have arrived lately is one on which a
// renewal waits behind them: the next one would have to be told everything again.
func (w *wire) reconnect() {
	timeout, _ := w.granted()
	if l := w.current.Load(); l.idle() >= min(timeout/8, time.Second/2) {
		l.Close()
	}
}

// cut ends every connection, now and to come, without a word to the server.
func (w *wire) cut(cause error) {
	w.end(cause)
	if l := w.current.Load(); l != nil {
		l.Close()
	}
}

// connecting is called before a ConnectRequest is written, and completes it: length, version, last zxid seen, timeout,
// session. A server that is behind that zxid refuses the client.
//
// The library would open a new session after the loss of the old one, and run on it what was asked for under the old: an
// entry of a session that nothing here keeps.
func (w *wire) connecting(p []byte) error {
	if w.life.Err() == nil && w.id.Load() != int64(binary.BigEndian.Uint64(p[20:])) {
		w.end(errSecondSession)
	}
	seen := w.seen.Load()
	binary.BigEndian.PutUint64(p[8:], uint64(seen))
	if w.watched.Swap(false) {
		w.told = seen
	}
	return context.Cause(w.life)
}

// moreWatches is less than what the library puts into one request to set its watches again, if it makes more than one.
const moreWatches = 64 << 10

// restoring is called before a request to set watches again is written, and completes it: length, xid, operation, zxid. The
// server lets those fire at once whose nodes have changed after that zxid. That may be before they were set the first time,
// which does no harm: an event is a hint. It returns 0 as the operation if the library makes another such request.
func (w *wire) restoring(p []byte) (op int32) {
	binary.BigEndian.PutUint64(p[12:], uint64(w.told))
	if len(p) > moreWatches {
		return 0
	}
	return opSetWatches
}

// connected is called with the answer: the session's id, 0 if it is over, and its timeout.
func (w *wire) connected(id int64, timeout time.Duration, sent time.Time) error {
	w.last.Store(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch known := w.id.Load(); {
	case id == 0:
		w.expired()
		return nil // the library must read it, to stop
	case known == 0:
		// The leader began to count when it made the session, which was after the request was sent.
		w.id.Store(id)
		w.proved = sent
		w.watched.Store(true)
		defer close(w.open)
	case known != id:
		w.end(errSecondSession)
		return errSecondSession
	case timeout < w.timeout:
		// A server with other bounds than the one before. The deadline counts on more time than there is now.
		w.end(errShortened)
		return errShortened
	}
	w.timeout = timeout
	return nil
}

// expired is called when the server says that the session is over.
func (w *wire) expired() {
	w.ended.Store(true)
	w.end(errExpired)
}

// proves reports whether the answer to an operation proves that the leader has heard of what was sent earlier. Proposals
// are answered by a quorum. A Sync is answered by a leader alone, which may have been cut off and replaced.
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
