package zktest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers of ZooKeeper's protocol.
const (
	opConnect     = 0 // ours, for the handshake
	opCreate      = 1
	opDelete      = 2
	opExists      = 3
	opGetData     = 4
	opSync        = 9
	opPing        = 11
	opGetChildren = 12
	opMulti       = 14
	opContainer   = 19
	opClose       = -11
	opSetAuth     = 100
	opSetWatches  = 101
	opEvent       = -1 // ours, for what the server sends unasked
)

// A verdict is what becomes of a frame.
type verdict int

const (
	pass  verdict = iota
	drop          // it never arrives, and the connection goes on
	sever         // it never arrives, and the connection is closed
)

// A tap stands between clients and a server, sees every frame, and loses those that it is told to.
type tap struct {
	listener net.Listener
	target   string
	all      sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	closed   bool
	down     bool          // nobody gets through
	counts   map[int32]int // requests by operation
	events   int           // what the server has sent unasked
	session  int64         // of the last handshake
	password []byte
	request  func(op int32, frame []byte) verdict
	reply    func(op int32, frame []byte) verdict
}

// newTap returns a tap in front of the server, closed by t.
func newTap(t testing.TB, target string) *tap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &tap{listener: listener, target: target, conns: map[net.Conn]bool{}, counts: map[int32]int{}}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		listener.Close()
		p.sever()
		p.all.Wait()
	})
	return p
}

func (p *tap) addr() string { return p.listener.Addr().String() }

// onRequest and onReply set who decides what becomes of frames; nil lets all pass.
func (p *tap) onRequest(f func(op int32, frame []byte) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request = f
}

func (p *tap) onReply(f func(op int32, frame []byte) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = f
}

// since returns the requests since the last call of since, without what keeps the session.
func (p *tap) since() map[int32]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts
	p.counts = map[int32]int{}
	for _, op := range []int32{opConnect, opPing, opSync} {
		delete(counts, op)
	}
	return counts
}

// await waits until there were n requests of an operation since the last call of since.
func (p *tap) await(t testing.TB, op int32, n int) {
	t.Helper()
	await(t, func() bool { return p.requests(op) >= n })
}

// requests returns how many there were of an operation since the last call of since.
func (p *tap) requests(op int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[op]
}

// fired returns how many events there were.
func (p *tap) fired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

// connections returns how many clients are connected.
func (p *tap) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

// sessionID returns the session of the last handshake.
func (p *tap) sessionID() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

// outage closes all connections, and those to come, until heal.
func (p *tap) outage() {
	p.setDown(true)
	p.sever()
}

func (p *tap) heal() { p.setDown(false) }

func (p *tap) setDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// sever closes all connections.
func (p *tap) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *tap) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[s] = true, true
		closed := p.closed || p.down
		p.mu.Unlock()
		if closed {
			c.Close()
			s.Close()
		}
		ops := &pending{ops: map[int32]int32{}}
		p.all.Go(func() { p.pump(c, s, ops, true) })
		p.all.Go(func() { p.pump(s, c, ops, false) })
	}
}

// pending is what each request of a connection was.
type pending struct {
	mu  sync.Mutex
	ops map[int32]int32 // by xid
}

func (p *tap) pump(from, to net.Conn, ops *pending, requests bool) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	for first := true; ; first = false {
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
		copy(frame, length[:])
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		switch p.judge(frame, ops, first, requests) {
		case drop:
			continue
		case sever:
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

func (p *tap) judge(frame []byte, ops *pending, first, requests bool) verdict {
	var op int32
	xid := int32(binary.BigEndian.Uint32(frame[4:]))
	switch {
	case first:
		op = opConnect
		if !requests {
			p.mu.Lock()
			if session := int64(binary.BigEndian.Uint64(frame[12:])); session != 0 {
				p.session = session
				p.password = append([]byte(nil), frame[24:40]...)
			}
			p.mu.Unlock()
		}
	case requests:
		op = int32(binary.BigEndian.Uint32(frame[8:]))
		ops.mu.Lock()
		ops.ops[xid] = op
		ops.mu.Unlock()
	case xid == -1:
		op = opEvent
	case xid == -2:
		op = opPing
	default:
		ops.mu.Lock()
		op = ops.ops[xid]
		ops.mu.Unlock()
	}
	p.mu.Lock()
	decide := p.reply
	if requests {
		p.counts[op]++
		decide = p.request
	} else if op == opEvent {
		p.events++
	}
	p.mu.Unlock()
	if decide == nil {
		return pass
	}
	return decide(op, frame)
}

// expire ends the session of the last handshake at the server, from a connection of its own: the way in which it
// would be told of a session that ran out, without the wait.
func (p *tap) expire(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	session, password := p.session, p.password
	p.mu.Unlock()
	require.NoError(t, endSession(p.target, session, password))
}

// passwords are those of sessions, by ID.
type passwords struct{ sync.Map }

// in returns how many of the sessions are in a list of the server's.
func (s *passwords) in(list string) (n int) {
	s.Range(func(session, _ any) bool {
		if strings.Contains(list, fmt.Sprintf("\t%#x\n", session)) {
			n++
		}
		return true
	})
	return n
}

// count returns how many there are.
func (s *passwords) count() (n int) {
	s.Range(func(any, any) bool { n++; return true })
	return n
}

// keep has the tap note the passwords of all sessions that go through it.
func (p *tap) keep(seen *passwords) {
	p.onReply(func(op int32, frame []byte) verdict {
		if op == opConnect {
			seen.Store(int64(binary.BigEndian.Uint64(frame[12:])), bytes.Clone(frame[24:40]))
		}
		return pass
	})
}

// endSession ends a session at the server. It fails if the client of the session comes back at the same time.
func endSession(server string, session int64, password []byte) error {
	c, err := net.Dial("tcp", server)
	if err != nil {
		return err
	}
	defer c.Close()
	connect := make([]byte, 4+28+16)
	binary.BigEndian.PutUint32(connect, uint32(len(connect)-4))
	binary.BigEndian.PutUint32(connect[16:], 10_000)
	binary.BigEndian.PutUint64(connect[20:], uint64(session))
	binary.BigEndian.PutUint32(connect[28:], 16)
	copy(connect[32:], password)
	closing := make([]byte, 12)
	opcode := int32(opClose)
	binary.BigEndian.PutUint32(closing, 8)
	binary.BigEndian.PutUint32(closing[4:], 1)
	binary.BigEndian.PutUint32(closing[8:], uint32(opcode))
	if _, err := c.Write(connect); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 4+36)); err != nil {
		return err
	}
	if _, err := c.Write(closing); err != nil {
		return err
	}
	_, _ = io.ReadAll(c) // until the server has done it and hangs up
	return nil
}
