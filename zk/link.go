package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"time"
)

// A link is one connection of the client library to a server, seen through. The library hands over a whole request
// with each Write, and reads replies through Read; the link looks at both, for what the library keeps to itself
// (send times, the session's real timeout, the zxid of a reply) and for what it does not survive (frames that are
// none, a server that never answers the handshake, a write that fails while no goroutine reads).
//
// The library is shown no zxids, and the two requests that have one are given that of the wire. The library would take the
// last that it was shown. It reads that without a lock when it sets its watches again, while replies write it. And where a
// connection is lost before they are set, it would not ask for what had changed until then.
type link struct {
	net.Conn
	in    *bufio.Reader
	wire  *wire
	shook bool      // the handshake is done
	sent  time.Time // when the ConnectRequest was; the goroutine that shakes hands sets and reads it

	// Only the reading goroutine uses these.
	frame []byte // what is left to be read of the last frame
	space []byte // that frames are read into, one after the other

	mu       sync.Mutex
	proved   time.Time         // what was sent then has reached the leader, by now
	renewed  time.Time         // when the request was sent that the next proves, or the ConnectRequest
	answered time.Time         // when a request was answered last, or the connection was made
	requests map[int32]request // sent and not yet answered
}

// A request is what is remembered of one until its reply comes.
type request struct {
	op   int32
	made *call // of a create
	sent time.Time
}

func newLink(w *wire, conn net.Conn) *link {
	return &link{Conn: conn, in: bufio.NewReader(conn), wire: w, requests: map[int32]request{}}
}

// SetReadDeadline bounds the wait for the answer to a ConnectRequest. The library would wait for 6.67 times the
// session's timeout; a session that is to be taken to another server would be over by then. After that there is no bound:
// whether the server still answers, the caller of Renew finds out.
func (l *link) SetReadDeadline(time.Time) error {
	if l.shook {
		return nil
	}
	return l.Conn.SetReadDeadline(time.Now().Add(l.wire.patience()))
}

// SetWriteDeadline does nothing. The library sets one for each request.
func (l *link) SetWriteDeadline(time.Time) error { return nil }

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
		l.fail(err)
	}
	return len(p), nil
}

// fail closes the connection. Its reason is kept for people, unless it was closed before, for a better one.
func (l *link) fail(err error) {
	if !errors.Is(err, net.ErrClosed) {
		l.wire.last.Store(&err)
	}
	l.Close()
}

// idle returns for how long no request has been answered.
func (l *link) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.answered)
}

// sending takes note of a request before it is sent, and reports whether it is a ping. It writes to p, which the library
// fills anew for the next request.
func (l *link) sending(p []byte) (ping bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent.IsZero() {
		l.sent = time.Now()
		l.proved, l.renewed, l.answered = l.sent, l.sent, l.sent
		return false, l.wire.connecting(p)
	}
	xid, op := int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	r := request{op: op, sent: time.Now()}
	switch op {
	case opPing:
		return true, nil
	case opCreate:
		r.made = l.wire.creating(text(p[12:]))
	case opSetWatches:
		r.op = l.wire.restoring(p)
	}
	l.requests[xid] = r
	return false, nil
}

// Read returns what the server sent, a frame at a time, once the frame has been looked at.
func (l *link) Read(p []byte) (int, error) {
	if len(l.frame) == 0 {
		frame, err := l.next()
		if err != nil {
			l.fail(err)
			return 0, err
		}
		l.frame = frame
	}
	n := copy(p, l.frame)
	l.frame = l.frame[n:]
	return n, nil
}

// next reads one frame, length included. In place of an answer that is too long it returns one that is an error of that
// call alone.
func (l *link) next() ([]byte, error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head))
	if size < headerSize || size > maxHandshake && !l.shook || size > math.MaxInt32 {
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, size)
	}
	read := 4 + int(size)
	if size > maxFrame {
		read = 4 + headerSize
	}
	frame := slices.Grow(l.space[:0], read)[:read]
	l.space = frame
	if _, err := io.ReadFull(l.in, frame); err != nil {
		return nil, err
	}
	if size > maxFrame {
		if err := l.skip(frame, int(size)-headerSize); err != nil {
			return nil, err
		}
	}
	if !l.shook {
		return frame, l.shaken(frame[4:])
	}
	return frame, l.take(frame[4:])
}

// skip reads past the rest of an answer that is too long, and makes an error of its beginning.
func (l *link) skip(frame []byte, rest int) error {
	l.mu.Lock()
	_, asked := l.requests[int32(binary.BigEndian.Uint32(frame[4:]))]
	l.mu.Unlock()
	if !asked {
		return fmt.Errorf("%w: of %d bytes", errFrame, headerSize+rest)
	}
	binary.BigEndian.PutUint32(frame, headerSize)
	binary.BigEndian.PutUint32(frame[16:], tooLong)
	_, err := l.in.Discard(rest)
	return err
}

// shaken takes note of the answer to the ConnectRequest: version, timeout, session, password.
func (l *link) shaken(body []byte) error {
	if !soundHandshake(body) {
		return fmt.Errorf("%w: a malformed handshake", errFrame)
	}
	l.shook = true
	timeout := time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond
	err := l.wire.connected(int64(binary.BigEndian.Uint64(body[8:])), timeout, l.sent)
	return errors.Join(err, l.Conn.SetReadDeadline(time.Time{}))
}

// take looks at a reply or an event, and takes note of it before the library is given it.
func (l *link) take(body []byte) error {
	xid, zxid := int32(binary.BigEndian.Uint32(body)), int64(binary.BigEndian.Uint64(body[4:]))
	code := int32(binary.BigEndian.Uint32(body[12:]))
	clear(body[4:12])
	ttl, _ := l.wire.granted()
	l.mu.Lock()
	defer l.mu.Unlock()
	r, asked := l.requests[xid]
	if !asked { // An event. It comes before every answer that is younger than what it tells of.
		return nil
	}
	delete(l.requests, xid)
	l.answered = time.Now()
	if code == 0 && !sound(r.op, body[headerSize:]) {
		return fmt.Errorf("%w: a malformed answer to operation %d", errFrame, r.op)
	}
	l.wire.seen.Store(max(zxid, l.wire.seen.Load()))
	switch {
	case r.op == opClose:
		l.wire.ended.Store(true)
	case code == errExpiry:
		l.wire.expired()
	case code != 0:
	case r.op == opSetWatches:
		l.wire.watched.Store(true)
	case l.wire.proves(r.op):
		if r.made != nil {
			r.made.zxid = zxid
		}
		if r.sent.Sub(l.renewed) >= ttl/4 {
			// The one before this is known to have reached the leader: see session. Of requests that follow one another more
			// closely, as the Syncs do that look for a lost create, that cannot be said.
			l.proved, l.renewed = l.renewed, r.sent
		}
		l.wire.renewed(l.proved, r.op)
	}
	return nil
}
