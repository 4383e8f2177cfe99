package zk

import (
	"context"
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

	open   chan struct{} // closed when there is a session
	ended  chan struct{} // closed by closed, when the server has confirmed the end
	closed func()
	parked chan struct{} // closed by leave
	leave  func()        // is called when the library looks for another server although life is over
	quit   chan struct{} // closed when the library is about to be closed

	id        atomic.Int64          // of the session. Invariant: 0 until there is one, and never changed after.
	anchored  atomic.Bool           // the library has a watch that never fires, so it asks for its watches on every new link
	proposals atomic.Bool           // only they prove a renewal, Syncs do not
	links     atomic.Int64          // dialed so far
	last      atomic.Pointer[error] // why there is no connection, for people; nil if there is one

	mu      sync.Mutex
	timeout time.Duration // the granted one. Invariant: it never shrinks.
	proved  time.Time     // what was sent then has renewed the session. Invariant: it never goes back.
	synced  bool          // a Sync has moved proved, and no proposal was answered after it
	current *link
	pending map[string]*making // writes that the library has not answered, by the ID of their entry
}

// A making is a write that is under way: a create, or the replacement of an entry.
type making struct {
	sent chan struct{} // closed when the request of a create is on its way
	once sync.Once     // closes sent
	done chan struct{} // closed when the library has answered
	zxid atomic.Int64  // of the reply to a create, 0 if there was none
}

// newWire returns the wire of a session that is to have the timeout asked.
func newWire(asked, least time.Duration, dialer func(context.Context, string, string) (net.Conn, error)) *wire {
	w := &wire{
		dialer: dialer, asked: asked, least: least,
		open: make(chan struct{}), ended: make(chan struct{}), parked: make(chan struct{}), quit: make(chan struct{}),
		pending: map[string]*making{},
	}
	w.closed = sync.OnceFunc(func() { close(w.ended) })
	w.leave = sync.OnceFunc(func() {
		close(w.parked)
		<-w.quit
		// A moment for the library's Close to queue its request. If it comes later, Close takes a second longer.
		_ = pause.For(context.Background(), 10*time.Millisecond)
	})
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
	l := &link{Conn: conn, wire: w, gone: make(chan struct{}), requests: map[int32]request{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		conn.Close()
		return nil, context.Cause(w.life)
	}
	w.current = l
	return l, nil
}

// reconnect closes a connection on which nothing is answered, so that the library tries the next server. A server
// answers the requests of a session in order. So a connection on which answers have arrived lately is one on which a
// renewal waits behind them: the next one would have to be told everything again.
func (w *wire) reconnect() {
	w.mu.Lock()
	l := w.current
	lately := min(w.timeout/8, time.Second/2)
	w.mu.Unlock()
	l.mu.Lock()
	idle := time.Since(l.answered)
	l.mu.Unlock()
	if idle >= lately {
		l.Close()
	}
}

// cut ends every connection, now and to come, without a word to the server.
func (w *wire) cut(cause error) {
	w.end(cause)
	w.mu.Lock()
	l := w.current
	w.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// connecting is called before a ConnectRequest is written. The library would open a new session after the loss of the old one, and run
// on it what was asked for under the old: an entry of a session that nothing here keeps.
func (w *wire) connecting(id int64) error {
	if w.life.Err() == nil && w.id.Load() != id {
		w.end(errSecondSession)
	}
	return context.Cause(w.life)
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
	w.end(errExpired)
	w.closed()
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

// make registers a write for an entry. The caller must call made.
func (w *wire) make(id string) *making {
	m := &making{sent: make(chan struct{}), done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[id] = m
	return m
}

// made ends what make began: the library has answered.
func (w *wire) made(id string, m *making) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[id] == m {
		delete(w.pending, id)
	}
	close(m.done)
}

// creating is called before a create is written. It returns the making, or nil.
func (w *wire) creating(id string) *making {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.pending[id]
	if m != nil {
		m.once.Do(func() { close(m.sent) })
	}
	return m
}
