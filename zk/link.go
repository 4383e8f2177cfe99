package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Numbers of ZooKeeper's protocol.
const (
	xidEvent = -1 // of a watch's event
	xidPing  = -2

	opCreate      = 1
	opExists      = 3
	opGetData     = 4
	opSync        = 9
	opGetChildren = 12
	opClose       = -11
	opSetAuth     = 100
	opSetWatches  = 101

	eventCreated  = 1
	eventDeleted  = 2
	eventChanged  = 3
	eventChildren = 4

	errNoNode = -101

	headerSize = 16 // of a reply: xid, zxid, error
)

const (
	// maxFrame bounds what a peer can make us allocate. It holds the names of 100,000 nodes of a queue.
	maxFrame = 16 << 20
	// maxHandshake bounds the answer to a ConnectRequest, which is 37 bytes today.
	maxHandshake = 1024
)

var (
	errSecondSession = errors.New("the client's session is over: it must not open another")
	errFrame         = errors.New("the server sent a frame that is none")
)

// A link is one connection of the client library to a server, seen through. The library hands over a whole request
// with each Write, and reads replies through Read; the link looks at both, for what the library keeps to itself
// (send times, the session's real timeout, the zxid of a reply) and for what it does not survive (frames that are
// none, a server that never answers the handshake, a write that fails while nobody reads).
type link struct {
	net.Conn
	wire *wire
	gone chan struct{} // closed by Close
	once sync.Once

	mu       sync.Mutex
	shook    bool              // the handshake is done
	opened   time.Time         // when the ConnectRequest was sent
	proved   time.Time         // what was sent then has reached the leader, by now
	renewed  time.Time         // when the Sync was sent that the next proves, or the ConnectRequest
	requests map[int32]request // sent and not yet answered

	frame []byte // what is left to be read of the last frame; only the reading goroutine uses it
}

// A request is what is remembered of one until its reply comes.
type request struct {
	op   int32
	path string // of a create, or of a request that sets a watch
	sent time.Time
}

// SetReadDeadline bounds the wait for the answer to a ConnectRequest. The library would wait for 6.67 times the
// session's timeout; a session that is to be taken to another server would be over by then.
func (l *link) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	shook := l.shook
	l.mu.Unlock()
	if !shook {
		t = time.Now().Add(l.wire.patience())
	}
	return l.Conn.SetReadDeadline(t)
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
// has room for one answer and nobody who takes it: the library would stand still for good.
func (l *link) Write(p []byte) (int, error) {
	err := l.sending(p)
	if err == nil {
		_, err = l.Conn.Write(p)
	}
	if err != nil {
		l.wire.failed(err)
		l.Close()
	}
	return len(p), nil
}

// sending takes note of a request before it is sent.
func (l *link) sending(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened.IsZero() {
		l.opened = time.Now()
		l.proved, l.renewed = l.opened, l.opened
		// Length, version, last zxid seen, timeout, session.
		if len(p) < 28 {
			return errFrame
		}
		return l.wire.connecting(l, int64(binary.BigEndian.Uint64(p[20:])))
	}
	if len(p) < 12 {
		return errFrame
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	if xid == xidPing {
		return nil
	}
	r := request{op: op, sent: time.Now()}
	switch op {
	case opCreate:
		r.path, _ = text(p[12:])
		l.wire.creating(r.path)
	case opGetData, opGetChildren, opExists:
		path, rest := text(p[12:])
		if len(rest) > 0 && rest[0] != 0 {
			r.path = path // it sets a watch
		}
	case opSetWatches:
		l.wire.watchesSet(l)
	}
	l.requests[xid] = r
	return nil
}

// Read returns what the server sent, a frame at a time, once the frame has been looked at.
func (l *link) Read(p []byte) (int, error) {
	if len(l.frame) == 0 {
		steady := l.steady()
		frame, err := l.next()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) { // by us, for a better reason
				l.wire.failed(err)
			}
			l.Close()
			if steady && l.steady() {
				// Before the library is told, so that the request does not stay with it, to be sent on the next link and
				// taken for that one's.
				l.wire.awaitWatches(l)
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
	return l.shook
}

// next reads one frame, length included.
func (l *link) next() ([]byte, error) {
	var length [4]byte
	if err := readFull(l.Conn, length[:]); err != nil {
		return nil, err
	}
	l.mu.Lock()
	shook := l.shook
	l.mu.Unlock()
	size, least, most := int64(binary.BigEndian.Uint32(length[:])), int64(headerSize), int64(maxFrame)
	if !shook {
		most = maxHandshake
	}
	if size < least || size > most {
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, size)
	}
	frame := make([]byte, 4+size)
	copy(frame, length[:])
	if err := readFull(l.Conn, frame[4:]); err != nil {
		return nil, err
	}
	if !shook {
		return frame, l.shaken(frame[4:])
	}
	if !l.mayPass(frame[4:]) {
		return nil, net.ErrClosed
	}
	l.received(frame[4:])
	return frame, nil
}

// mayPass holds back a reply until the library may be given it. It reports false if that is never.
func (l *link) mayPass(body []byte) bool {
	xid, zxid := int32(binary.BigEndian.Uint32(body)), int64(binary.BigEndian.Uint64(body[4:]))
	l.mu.Lock()
	op := l.requests[xid].op
	l.mu.Unlock()
	if op == opClose {
		l.wire.closed()
	}
	return xid < 0 || zxid <= 0 || l.wire.awaitWatches(l)
}

// shaken takes note of the answer to the ConnectRequest: version, timeout, session, password.
func (l *link) shaken(body []byte) error {
	timeout := time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond
	session := int64(binary.BigEndian.Uint64(body[8:]))
	l.mu.Lock()
	l.shook = true
	opened := l.opened
	l.mu.Unlock()
	return l.wire.connected(l, session, timeout, opened)
}

// received takes note of a reply or an event.
func (l *link) received(body []byte) {
	xid := int32(binary.BigEndian.Uint32(body))
	zxid := int64(binary.BigEndian.Uint64(body[4:]))
	failed := int32(binary.BigEndian.Uint32(body[12:]))
	body = body[headerSize:]
	if xid == xidEvent {
		if len(body) >= 8 {
			kind := int32(binary.BigEndian.Uint32(body))
			path, _ := text(body[8:])
			l.wire.fired(path, kind)
		}
		return
	}
	l.mu.Lock()
	r, ok := l.requests[xid]
	delete(l.requests, xid)
	if ok && r.op == opSync && failed == 0 && r.sent.Sub(l.renewed) >= l.wire.beat() {
		// The one before this is known to have reached the leader: see session. Of Syncs that follow one another more
		// closely, as those that look for a lost create do, that cannot be said.
		l.proved, l.renewed = l.renewed, r.sent
	}
	proved := l.proved
	l.mu.Unlock()
	switch {
	case !ok:
	case r.op == opSync && failed == 0:
		l.wire.renewed(proved)
	case r.op == opCreate && failed == 0:
		l.wire.created(r.path, zxid)
	case r.path != "":
		l.wire.watched(r.op, r.path, failed)
	}
}

// text returns a string of the protocol, and what follows it. It returns nothing for what is none.
func text(p []byte) (string, []byte) {
	if len(p) < 4 {
		return "", nil
	}
	n := int32(binary.BigEndian.Uint32(p))
	if n < 0 || int64(n) > int64(len(p)-4) {
		return "", nil
	}
	return string(p[4 : 4+n]), p[4+n:]
}

// readFull fills p.
func readFull(c net.Conn, p []byte) error {
	for len(p) > 0 {
		n, err := c.Read(p)
		p = p[n:]
		if err != nil && len(p) > 0 {
			return err
		}
	}
	return nil
}
