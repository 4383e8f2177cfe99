package zk

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/farsync/farsync/recipe"
)

// A wire is what the links of one session, which follow one another, have in common. It is the session's only way to
// the servers: when it is cut, the client library can neither reach one nor open another session.
type wire struct {
	dialer func(ctx context.Context, network, address string) (net.Conn, error)
	asked  time.Duration // the timeout that is asked for

	life context.Context // the session's own: dials and links end with it
	end  context.CancelCauseFunc

	mu        sync.Mutex
	id        int64 // the session's, 0 until there is one
	timeout   time.Duration
	session   *recipe.Session // nil until there is one
	open      chan struct{}   // closed when there is one
	ended     chan struct{}   // closed when the server has confirmed its end
	current   *link
	last      error              // why there was no connection last
	links     int                // made so far
	pending   map[string]*making // creates, by the path that was asked for
	watches   map[spot]bool      // what the library has watches on
	restoring *link              // a link on which the library has yet to set its watches again
	restored  chan struct{}      // closed when it has
}

// A making is a create that is under way.
type making struct {
	sent chan struct{} // closed when the request is on its way
	once sync.Once
	zxid int64 // of the reply; guarded by the wire
}

func newWire(asked time.Duration, dialer func(context.Context, string, string) (net.Conn, error)) *wire {
	w := &wire{
		dialer: dialer, asked: asked,
		open: make(chan struct{}), ended: make(chan struct{}),
		pending: map[string]*making{}, watches: map[spot]bool{},
	}
	w.life, w.end = context.WithCancelCause(context.Background())
	return w
}

// beat is the least time between two Syncs of which the later proves the earlier.
func (w *wire) beat() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timeout / 4
}

// patience is how long a server may take to accept a connection or to answer a handshake: short enough that another
// can be tried while the session lives. There is less of a hurry while there is none, and what was asked for may be far
// from what will be granted.
func (w *wire) patience() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timeout == 0 {
		return min(max(w.asked/6, time.Second), openFor)
	}
	return max(w.timeout/6, 100*time.Millisecond)
}

// dial makes the next link.
func (w *wire) dial(network, address string, _ time.Duration) (net.Conn, error) {
	if w.life.Err() != nil {
		return nil, context.Cause(w.life)
	}
	w.mu.Lock()
	again := w.links > 0
	w.links++
	w.mu.Unlock()
	if again {
		// Do not spin over servers that refuse at once.
		if err := recipe.Pause(w.life, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(w.life, w.patience())
	defer cancel()
	conn, err := w.dialer(ctx, network, address)
	if err != nil {
		w.failed(err)
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

// failed takes note of why there is no connection, for people.
func (w *wire) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
}

// trouble returns why there was no connection last, or nil.
func (w *wire) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// reconnect closes the present connection, so that the library tries the next server.
func (w *wire) reconnect() {
	w.mu.Lock()
	l := w.current
	w.mu.Unlock()
	l.Close()
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

// connecting is told of a ConnectRequest. The library would open a new session after the loss of the old one, and run
// on it what was asked for under the old: an entry of a session that nobody watches over.
func (w *wire) connecting(l *link, id int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		return context.Cause(w.life)
	}
	if w.id != id {
		return errSecondSession
	}
	if len(w.watches) > 0 {
		w.restoring, w.restored = l, make(chan struct{})
	} else {
		w.restoring = nil
	}
	return nil
}

// connected is told of the answer: the session's id, 0 if it is over, and its timeout.
func (w *wire) connected(l *link, id int64, timeout time.Duration, sent time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id == 0 {
		if w.session != nil {
			w.session.End(errExpired)
		}
		w.end(errExpired)
		return nil // the library must read it, to stop
	}
	if w.id != 0 && w.id != id {
		return errSecondSession
	}
	if w.id != 0 && timeout < w.timeout {
		// A server with other bounds than the one before. The deadline counts on more time than there is now.
		w.session.End(errShortened)
	}
	w.timeout = timeout
	if w.id == 0 {
		// The leader began to count when it made the session, which was after the request was sent.
		w.id = id
		w.session = recipe.NewSession(timeout, sent.Add(timeout-recipe.Margin(timeout)))
		close(w.open)
	}
	return nil
}

// renewed is told of a moment from which on the server is known to keep the session for its timeout.
func (w *wire) renewed(from time.Time) {
	w.mu.Lock()
	session, timeout := w.session, w.timeout
	w.mu.Unlock()
	session.Extend(from.Add(timeout - recipe.Margin(timeout)))
}

// make registers a create of the path, which must be asked for only once.
func (w *wire) make(path string) *making {
	m := &making{sent: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[path] = m
	return m
}

// made ends what make began, and returns the zxid of the create, 0 if it is not known.
func (w *wire) made(path string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.pending[path]
	delete(w.pending, path)
	return m.zxid
}

// creating is told of a create that is about to be written.
func (w *wire) creating(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.pending[path]; m != nil {
		m.once.Do(func() { close(m.sent) })
	}
}

// created is told of the reply.
func (w *wire) created(path string, zxid int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.pending[path]; m != nil {
		m.zxid = zxid
	}
}

// A spot is what a watch of the library's is on: a kind of watch, by the request that sets it, on a path.
type spot struct {
	op   int32
	path string
}

// watched is told that the library is about to learn of a watch: of any on success, and of one on a node that is not
// there yet.
func (w *wire) watched(op int32, path string, failed int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case failed == 0 && op == opExists:
		w.watches[spot{opGetData, path}] = true // the library keeps the two together
	case failed == 0, failed == errNoNode && op == opExists:
		w.watches[spot{op, path}] = true
	}
}

// fired is told that the library is about to learn of an event, after which it forgets the watches on it.
func (w *wire) fired(path string, kind int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ops []int32
	switch kind {
	case eventCreated:
		ops = []int32{opExists}
	case eventChanged:
		ops = []int32{opExists, opGetData}
	case eventChildren:
		ops = []int32{opGetChildren}
	case eventDeleted:
		ops = []int32{opExists, opGetData, opGetChildren}
	}
	for _, op := range ops {
		delete(w.watches, spot{op, path})
	}
}

// watchesSet is told that the library is about to set its watches again on l.
func (w *wire) watchesSet(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.restoring == l {
		w.restoring = nil
		close(w.restored)
	}
}

// awaitWatches returns when the library has read its last zxid for setting its watches again on l, and reports false if
// it does not get there. It reads it without a lock, while a reply makes it write it.
func (w *wire) awaitWatches(l *link) bool {
	w.mu.Lock()
	wait := w.restoring == l
	restored := w.restored
	w.mu.Unlock()
	if !wait {
		return true
	}
	select {
	case <-restored:
		return true
	case <-l.gone:
	}
	// The library does not know yet, and sends on.
	giveUp := time.NewTimer(w.patience())
	defer giveUp.Stop()
	select {
	case <-restored:
		return true
	case <-w.life.Done():
	case <-giveUp.C:
	}
	return false
}

// closed is told that the server has confirmed the end of the session.
func (w *wire) closed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ended:
	default:
		close(w.ended)
	}
}

var (
	errExpired   = errors.New("the server says that the session has expired")
	errShortened = errors.New("another server keeps the session for less time than the one that opened it")
)

// sessionID returns what the server calls the session.
func (w *wire) sessionID() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}
