package zk

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	client "github.com/go-zookeeper/zk"
)

// A link is one connection to a server. Requests are written by the callers who make them, and answers are read by the
// goroutine of the session, which wakes the caller who waits for the answer.
type link struct {
	net.Conn
	in   *bufio.Reader
	wire *wire

	// Only the reading goroutine uses these.
	space     []byte    // that frames are read into, one after the other
	proved    time.Time // the leader knows of a request that was sent then, or of the ConnectRequest
	signs     []sign    // younger requests, which the leader may not know yet, the oldest first
	restoring int       // so many requests that set watches again are not answered

	mu         sync.Mutex
	answered   time.Time       // when a request was answered last, or the connection was made
	calls      map[int32]*call // sent and not yet answered; nil once there are no more
	last       int32           // the xid of the youngest
	matched    int32           // the xid of the last answer, which the next answer follows
	unanswered int             // bytes of calls
	out        []byte          // what is to be sent
	writing    bool            // a goroutine sends what came before
	writers    sync.WaitGroup  // goroutines that do nothing else
}

// A sign is a sign of life: a request that has been answered.
type sign struct {
	sent    time.Time
	reached time.Time // by then the request had reached the server, for it was answered
}

func newLink(w *wire, conn net.Conn) *link {
	return &link{Conn: conn, in: bufio.NewReaderSize(conn, 16<<10), wire: w, calls: map[int32]*call{}, answered: time.Now()}
}

// idle returns for how long no request has been answered.
func (l *link) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.answered)
}

// shake sends a ConnectRequest and reads the answer. A server that is behind the zxid that it is told refuses the
// client. Then it says who the session's user is. There is a bound for each answer: a session that is to be taken to
// another server must not be over by then.
func (l *link) shake(user *Digest) error {
	sent := time.Now()
	l.proved = sent
	body, err := l.exchange(l.wire.connecting())
	if err != nil {
		return err
	}
	d := decoder{p: body}
	_, timeout, id, password := d.number(), d.number(), d.long(), d.data()
	if d.short {
		return fmt.Errorf("%w: a malformed handshake", errFrame)
	}
	l.wire.password = append(l.wire.password[:0], password...)
	if err := l.wire.connected(id, time.Duration(timeout)*time.Millisecond, sent); err != nil {
		return err
	}
	if user != nil {
		body, err = l.exchange(authenticating(user).put(4, authXid))
		if err != nil {
			return err
		}
		if err = answer(int32(binary.BigEndian.Uint32(body[12:]))); err != nil && !happened(l.wire.open) {
			l.wire.end(err)
		}
	}
	_ = l.SetDeadline(time.Time{})
	return err
}

// authXid is the xid of a request which says who the user is.
const authXid = -4

// authenticating says who the user is.
func authenticating(user *Digest) frame {
	return newFrame(opSetAuth).number(0).text("digest").text(user.User + ":" + user.Password)
}

// exchange sends a frame, and returns the body of the frame that answers it.
func (l *link) exchange(p frame) ([]byte, error) {
	_ = l.SetDeadline(time.Now().Add(l.wire.patience()))
	if _, err := l.Write(p.sized()); err != nil {
		return nil, err
	}
	return l.next()
}

// next reads one frame, without its length. Of an answer that is too long it returns the header, with the error of that
// call alone.
func (l *link) next() ([]byte, error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return nil, err
	}
	size, rest := int(binary.BigEndian.Uint32(head)), 0
	if size > maxFrame {
		rest, size = size-headerSize, headerSize
	}
	if size < headerSize {
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, size)
	}
	if _, err := l.in.Discard(4); err != nil {
		return nil, err
	}
	l.space = slices.Grow(l.space[:0], size)[:size]
	if _, err := io.ReadFull(l.in, l.space); err != nil || rest == 0 {
		return l.space, err
	}
	l.mu.Lock()
	_, asked := l.calls[int32(binary.BigEndian.Uint32(l.space))]
	l.mu.Unlock()
	if !asked || rest > math.MaxInt32-headerSize {
		return nil, fmt.Errorf("%w: of %d bytes", errFrame, headerSize+rest)
	}
	binary.BigEndian.PutUint32(l.space[12:], tooLong)
	_, err = l.in.Discard(rest)
	return l.space, err
}

// add puts a call behind what is to be sent, and reports false if the link takes no more. A call that is added is sent
// by the next flush.
func (l *link) add(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		return false
	}
	l.last = following(l.last)
	l.calls[l.last] = c
	l.out = append(l.out, c.frame.put(4, l.last).sized()...)
	l.unanswered += len(c.frame)
	c.link, c.sent = l, time.Now()
	return true
}

// following returns the xid that follows another. Those below 1 have a meaning of their own.
func following(xid int32) int32 { return xid%math.MaxInt32 + 1 }

// inline is how much may be unanswered where a caller writes its request itself. The system has room for as much, also
// if the network takes nothing, so the caller does not wait for that.
const inline = 4 << 10

// flush sends what was added, in one piece what has come together. If another goroutine is at it, that one does. Where
// more is unanswered than may be, one of its own does.
func (l *link) flush(may int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.writing && len(l.out) > 0 && l.calls != nil {
		if l.unanswered > may {
			l.writers.Go(func() { l.flush(math.MaxInt) })
			return
		}
		out := l.out
		l.out, l.writing = nil, true
		l.mu.Unlock()
		if _, err := l.Write(out); err != nil {
			l.Close()
		}
		l.mu.Lock()
		l.writing = false
	}
}

// receive reads answers and events, and gives them to the session, until the connection is lost.
func (l *link) receive(s *session) error {
	for {
		body, err := l.next()
		if err != nil {
			return err
		}
		head := decoder{p: body[:headerSize]}
		xid, zxid, code := head.number(), head.long(), head.number()
		if xid == -1 { // An event. It comes before every answer that is younger than what it tells of.
			event := decoder{p: body[headerSize:]}
			kind, _ := event.number(), event.number()
			path := string(event.data())
			if event.short {
				return fmt.Errorf("%w: a malformed event", errFrame)
			}
			s.fire(l, kind, path)
			l.flush(inline)
			continue
		}
		c, err := l.match(xid)
		if err != nil {
			return err
		}
		if code == errNoNode && c.op == opExists { // its watch tells when the node is made
			code = 0
		} else if code == 0 && !c.decode(body[headerSize:]) {
			err = fmt.Errorf("%w: a malformed answer to operation %d", errFrame, c.op)
			s.finish(c, err)
			return err
		}
		c.zxid = zxid
		l.note(c, code)
		if code != 0 && c.op == opSetWatches {
			s.wakeOld(l)
			l.flush(inline)
		}
		s.finish(c, answer(cmp.Or(code, c.failed)))
	}
}

// match takes the call that an answer is to from the calls that are not answered. A server answers the requests of a
// connection in their order. Where it does not, or something on the way has lost or changed an answer, it is not known
// which answers belong to which calls, nor which events are missing. The call whose answer is gone would wait for as
// long as the connection lasts.
func (l *link) match(xid int32) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[xid]
	if l.matched = following(l.matched); c == nil || xid != l.matched {
		return nil, fmt.Errorf("%w: an answer to request %d, where request %d is the next", errFrame, xid, l.matched)
	}
	delete(l.calls, xid)
	l.unanswered -= len(c.frame)
	l.answered = time.Now()
	return c, nil
}

// note takes note of the answer to a call, before its caller is told.
func (l *link) note(c *call, code int32) {
	l.wire.seen.Store(max(c.zxid, l.wire.seen.Load()))
	switch {
	case c.op == opClose && code == 0:
		l.wire.ended.Store(true)
	case code == errExpiry, c.failed == errExpiry: // a Multi fails with the error of a part, also with the session's
		l.wire.expired()
	case c.op == opSetWatches: // set, or woken instead
		l.restoring--
		l.wire.watched = l.restoring == 0
	case code == 0 && l.wire.proves(c.op):
		l.prove(c.sent, time.Now())
		l.wire.renewed(l.proved, c.op)
	}
}

// prove notes that a request was answered now, by the leader. The leader is then known to have heard of every request
// that had reached the server a quarter of the timeout before this one was sent: see session. Nothing can be said of
// requests that follow one another more closely, such as the Syncs that look for a lost create. Nor can it of two that
// were sent long after one another and held up on the way: only the answer tells that the first had reached the server.
//
// Each request is kept until a later one proves it. So creates, handshakes and renewals may come in any order, and as
// close together as they like: the renewal a quarter of the timeout after an answered renewal proves that one, and what
// came in between delays nothing. Were a request that comes too soon forgotten instead, the first renewal after a new
// connection would be, and the proof would be three quarters of the timeout old before it moved.
func (l *link) prove(sent, now time.Time) {
	ttl, _ := l.wire.granted()
	known := 0
	for known < len(l.signs) && sent.Sub(l.signs[known].reached) >= ttl/4 {
		l.proved = l.signs[known].sent
		known++
	}
	l.signs = slices.Delete(l.signs, 0, known)
	if n := len(l.signs); n == 0 || sent.Sub(l.signs[n-1].sent) >= ttl/signsPerTimeout {
		l.signs = append(l.signs, sign{sent, now})
	}
}

// signsPerTimeout bounds how many signs of life are kept while answers come at once: a quarter of that, and one. Of a
// burst of requests the first is kept, so the proof may be older by a 64th of the timeout.
const signsPerTimeout = 64

// end closes the connection, and fails what was not answered.
func (l *link) end(s *session) {
	l.Close()
	l.mu.Lock()
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	l.writers.Wait()
	for _, c := range calls {
		s.finish(c, client.ErrConnectionClosed)
	}
}
