package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A link is one connection of the client library to a server, seen through. The library hands over a whole request
// with each Write, and reads replies through Read; the link looks at both, for what the library keeps to itself
// (send times, the session's real timeout, the zxid of a reply) and for what it does not survive (frames that are
// none, a server that never answers the handshake, a write that fails while no goroutine reads).
type link struct {
	net.Conn
	wire *wire
	gone chan struct{} // closed by Close
	once sync.Once

	shook  atomic.Bool // the handshake is done
	opened time.Time   // when the ConnectRequest was sent; the goroutine that shakes hands sets and reads it

	mu       sync.Mutex
	proved   time.Time         // what was sent then has reached the leader, by now
	renewed  time.Time         // when the request was sent that the next proves, or the ConnectRequest
	answered time.Time         // when a request was answered last, or the connection was made
	requests map[int32]request // sent and not yet answered
	restored chan struct{}     // closed when the library sets its watches again; nil where it has none

	frame []byte // what is left to be read of the last frame; only the reading goroutine uses it
}

// A request is what is remembered of one until its reply comes.
type request struct {
	op   int32
	made *making // of a create
	sent time.Time
}

// SetReadDeadline bounds the wait for the answer to a ConnectRequest. The library would wait for 6.67 times the
// session's timeout; a session that is to be taken to another server would be over by then. After that there is no bound:
// whether the server still answers, the caller of Renew finds out.
func (l *link) SetReadDeadline(time.Time) error {
	if l.shook.Load() {
		return l.Conn.SetReadDeadline(time.Time{})
	}
	return l.Conn.SetReadDeadline(time.Now().Add(l.wire.patience()))
}

// Close closes the connection. It may be called again.
func (l *link) Close() (err error) {
	l.once.Do(func() {
		close(l.gone)
		err = l.Conn.Close()
	})
	return err
}

// Write sends one request. If it cannot, it closes the connection and says nothing: the reader then fails. The library
// would answer the request twice, once for the failed write and once for the connection, and a SetAuth that it repeats
// has room for one answer that no goroutine takes: the library would stand still for good.
//
// It swallows pings. They would keep a session that its owner does not renew, and prove nothing.
func (l *link) Write(p []byte) (int, error) {
	ping, err := l.sending(p)
	if err == nil && !ping {
		_, err = l.Conn.Write(p)
	}
	if err != nil {
		l.wire.last.Store(&err)
		l.Close()
	}
	return len(p), nil
}

// sending takes note of a request before it is sent, and reports whether it is a ping.
func (l *link) sending(p []byte) (ping bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened.IsZero() {
		l.opened = time.Now()
		l.proved, l.renewed, l.answered = l.opened, l.opened, l.opened
		// Length, version, last zxid seen, timeout, session.
		if len(p) < 28 {
			return false, errFrame
		}
		if l.wire.anchored.Load() {
			l.restored = make(chan struct{})
		}
		return false, l.wire.connecting(int64(binary.BigEndian.Uint64(p[20:])))
	}
	if len(p) < 12 {
		return false, errFrame
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	if xid == xidPing {
		return true, nil
	}
	r := request{op: op, sent: time.Now()}
	switch op {
	case opCreate:
		r.made = l.wire.creating(text(p[12:]))
	case opSetWatches:
		if l.restored != nil && !happened(l.restored) {
			close(l.restored)
		}
	}
	l.requests[xid] = r
	return false, nil
}

// Read returns what the server sent, a frame at a time, once the frame has been looked at.
func (l *link) Read(p []byte) (int, error) {
	if len(l.frame) == 0 {
		steady := l.steady()
		frame, err := l.next()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) { // by us, for a better reason
				l.wire.last.Store(&err)
			}
			l.Close()
			if steady && l.steady() {
				// Before the library is told, so that the request does not stay with it, to be sent on the next link and
				// taken for that one's.
				l.awaitWatches()
			}
			return 0, err
		}
		l.frame = frame
	}
	n := copy(p, l.frame)
	l.frame = l.frame[n:]
	return n, nil
}

// steady reports whether the library is done with the handshake and with its credentials: then it sends what it has.
func (l *link) steady() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if r.op == opSetAuth {
			return false
		}
	}
	return l.shook.Load()
}

// next reads one frame, length included.
func (l *link) next() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(l.Conn, length[:]); err != nil {
		return nil, err
	}
	shook := l.shook.Load()
	size := int64(binary.BigEndian.Uint32(length[:]))
	switch {
	case size < headerSize || size > maxHandshake && !shook || size > math.MaxInt32:
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, size)
	case size > maxFrame:
		return l.skip(size)
	}
	frame := make([]byte, 4+size)
	copy(frame, length[:])
	if _, err := io.ReadFull(l.Conn, frame[4:]); err != nil {
		return nil, err
	}
	if !shook {
		return frame, l.shaken(frame[4:])
	}
	return frame, l.take(frame[4:])
}

// awaitWatches returns when the library has read its last zxid for setting its watches again, and reports false if it does
// not get there. It reads it without a lock, while a reply makes it write it.
func (l *link) awaitWatches() bool {
	l.mu.Lock()
	restored := l.restored
	l.mu.Unlock()
	if restored == nil {
		return true
	}
	select {
	case <-restored:
		return true
	case <-l.gone:
	}
	// The library does not know yet, and sends on.
	giveUp := time.NewTimer(l.wire.patience())
	defer giveUp.Stop()
	select {
	case <-restored:
		return true
	case <-l.wire.life.Done():
	case <-giveUp.C:
	}
	return false
}

// skip reads past an answer that is too long, and returns one in its place that is an error of that call alone.
func (l *link) skip(size int64) ([]byte, error) {
	frame := make([]byte, 4+headerSize)
	if _, err := io.ReadFull(l.Conn, frame[4:]); err != nil {
		return nil, err
	}
	l.mu.Lock()
	_, asked := l.requests[int32(binary.BigEndian.Uint32(frame[4:]))]
	l.mu.Unlock()
	if !asked {
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, size)
	}
	if _, err := io.CopyN(io.Discard, l.Conn, size-headerSize); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(frame, headerSize)
	binary.BigEndian.PutUint32(frame[16:], tooLong)
	return frame, l.take(frame[4:])
}

// shaken takes note of the answer to the ConnectRequest: version, timeout, session, password.
func (l *link) shaken(body []byte) error {
	timeout := time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond
	session := int64(binary.BigEndian.Uint64(body[8:]))
	l.shook.Store(true)
	return l.wire.connected(session, timeout, l.opened)
}

// take looks at a reply or an event, holds it back until the library may be given it, and takes note of it.
func (l *link) take(body []byte) error {
	xid, zxid := int32(binary.BigEndian.Uint32(body)), int64(binary.BigEndian.Uint64(body[4:]))
	code := int32(binary.BigEndian.Uint32(body[12:]))
	l.mu.Lock()
	r, asked := l.requests[xid]
	l.mu.Unlock()
	switch {
	case !asked: // An event. It comes before every answer that is younger than what it tells of.
		return nil
	case r.op == opClose:
		l.wire.closed()
	case code == 0 && !sound(r.op, body[headerSize:]):
		return fmt.Errorf("%w: a malformed answer to operation %d", errFrame, r.op)
	}
	// From here on the library may take the zxid of this answer for the last that it has seen.
	if zxid > 0 && !l.awaitWatches() {
		return net.ErrClosed
	}
	ttl, _ := l.wire.granted()
	l.mu.Lock()
	delete(l.requests, xid)
	l.answered = time.Now()
	proof := code == 0 && l.wire.proves(r.op)
	if proof && r.sent.Sub(l.renewed) >= ttl/4 {
		// The one before this is known to have reached the leader: see session. Of requests that follow one another more
		// closely, as the Syncs do that look for a lost create, that cannot be said.
		l.proved, l.renewed = l.renewed, r.sent
	}
	proved := l.proved
	l.mu.Unlock()
	switch {
	case code == errExpiry:
		l.wire.expired()
	case r.op == opExists && (code == 0 || code == errNoNode):
		l.wire.anchored.Store(true)
	case r.made != nil && code == 0:
		r.made.zxid.Store(zxid)
	}
	if proof {
		l.wire.renewed(proved, r.op)
	}
	return nil
}
