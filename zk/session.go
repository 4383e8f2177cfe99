package zk

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
	"github.com/farsync/farsync/internal/pause"
)

// A session is one ZooKeeper session, with one connection after the other and never another session: what is asked for
// in a session is done in it or not at all.
//
// How long it is proved to live is a matter of requests that the leader answers. The server that a client is connected
// to answers pings and reads by itself, also when it is cut off from the leader, which alone decides that a session has
// expired. But what the leader knows of a session's last sign of life is what the follower has told it, with a
// heartbeat of theirs, up to half a tick after. So an answer of the leader's proves that it knows of a request that was
// answered T/4 before that one was sent, and the deadline counts from when the earlier was sent. A ConnectRequest goes
// through the leader too.
type session struct {
	*service
	wire    *wire
	mark    string        // what the names of this session's entries begin with
	entries atomic.Uint64 // so many have been given a name
	stopped chan struct{} // closed when run has returned

	slots   chan struct{}  // calls hold one each until they are answered
	joins   chan struct{}  // creates of entries hold one each, until they have seen the queue; fewer, for their reads need slots too
	waiting sync.WaitGroup // reads for which there is no slot or no connection yet

	mu     sync.Mutex
	on     *link             // nil while there is no connection
	up     chan struct{}     // closed while there is one
	reads  map[spot]*read    // those under way, and those whose watch has not fired
	crowds map[string]*queue // by name
	owned  string            // the path of a head that a session was seen to own, for blocked
	copied map[string]bool   // the paths of own entries in whose place another session's nodes stand
}

// maxCalls bounds what the server is asked for at a time. It answers a session in order, and renewals need no slot, so
// a renewal stands behind no more than these.
const maxCalls = 256

// connect returns a session that is about to be opened on a wire. The caller must end it.
func (s *service) connect(w *wire) *session {
	in := &session{
		service: s, wire: w, mark: newMark(), stopped: make(chan struct{}), up: make(chan struct{}),
		slots: make(chan struct{}, maxCalls), joins: make(chan struct{}, maxCalls/2),
		reads: map[spot]*read{}, crowds: map[string]*queue{}, copied: map[string]bool{},
	}
	go in.run() // ends with the wire's life; Drop waits for it
	return in
}

const (
	// Before it connects to the next server, a session waits for a time that doubles from redialFirst to redialMost with
	// each round of the servers while it was not opened. A session that was opened does not wait for longer: it is about
	// to run out.
	redialFirst = 50 * time.Millisecond
	redialMost  = 800 * time.Millisecond
)

// run connects to one server after the other, in turn from a random one on, until the session is over.
func (s *session) run() {
	defer close(s.stopped)
	delay := redialFirst
	for tried, first := 1, rand.N(len(s.servers)); s.wire.life.Err() == nil; tried++ {
		server := s.servers[(first+tried)%len(s.servers)]
		err := s.serve(server)
		if !errors.Is(err, net.ErrClosed) { // else it was closed for a better reason
			s.wire.lost(err)
			s.log.Debug("connection lost", "server", server, "cause", err)
		}
		_ = pause.For(s.wire.life, delay)
		switch {
		case happened(s.wire.open):
			delay = redialFirst
		case tried%len(s.servers) == 0:
			delay = min(2*delay, redialMost)
		}
	}
}

// serve uses a connection to a server until it is lost. Names are left to the dialer, which looks them up anew each
// time and, with TLS, checks the certificate against them.
func (s *session) serve(server string) error {
	ctx, cancel := context.WithTimeout(s.wire.life, s.wire.patience())
	var conn net.Conn
	dial, user, err := s.prepare(ctx, s.wire)
	if err == nil {
		conn, err = dial(ctx, "tcp", server)
	}
	if cancel(); err != nil {
		return err
	}
	l := newLink(s.wire, conn)
	defer l.end(s)
	defer context.AfterFunc(s.wire.life, func() { l.Close() })()
	user = cmp.Or(s.wire.user, user)
	if err := l.shake(user); err != nil {
		return err
	}
	s.wire.user = user
	s.mu.Lock()
	s.restore(l)
	s.on = l
	close(s.up)
	s.mu.Unlock()
	if !happened(s.wire.open) {
		s.wire.name = sessionName(s.wire.id.Load(), s.wire.password)
		close(s.wire.open)
	}
	l.flush(0)
	err = l.receive(s)
	s.mu.Lock()
	s.on, s.up = nil, make(chan struct{})
	s.mu.Unlock()
	return err
}

// Granted returns the timeout that the server has granted, and the latest moment that is proved to have renewed it.
func (s *session) Granted() (ttl time.Duration, from time.Time) { return s.wire.granted() }

// Over is closed when the session is over for this client, for whatever reason.
func (s *session) Over() <-chan struct{} { return s.wire.life.Done() }

// Name is the session's ID with its password.
func (s *session) Name() string { return s.wire.name }

// History is empty: what a majority has confirmed is not undone.
func (*session) History() string { return "" }

// Outlast has nothing to do: the servers keep a session until it runs out, also when its connection is gone.
func (*session) Outlast(context.Context) error { return nil }

// Silence is over: the service grants from when it serves.
func (*session) Silence() (until time.Time, why string) { return until, "" }

// Renew sends a Sync, or a transaction that changes nothing if there is something to prove. The answer moves what
// Granted returns by way of the wire.
func (s *session) Renew(ctx context.Context, prove []driver.Entry) error {
	s.wire.proposals.Store(len(prove) > 0)
	if len(prove) == 0 {
		return s.ask(ctx, urgent(syncing("/")))
	}
	if err := s.propose(ctx, prove[0].ID); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil // said by a quorum as well
}

// Reset leaves the server, unless it has answered a moment ago. The next in turn that answers the handshake takes the
// session over. A server answers the requests of a session in order. So a connection on which answers have arrived
// lately is one on which a renewal waits behind them: the next one would have to be told everything again.
func (s *session) Reset() {
	timeout, _ := s.Granted()
	if l := s.link(); l != nil && l.idle() >= min(timeout/8, time.Second/2) {
		l.Close()
	}
}

// Close ends the session at the server, which removes its entries. It waits for the answer for a second at most.
func (s *session) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = s.ask(ctx, urgent(newFrame(opClose)))
	s.Drop()
	if !s.wire.ended.Load() {
		return errors.New("the server did not confirm the end of the session, which runs out by itself")
	}
	return nil
}

// Drop lets go of the session without ending it at the server.
func (s *session) Drop() {
	s.wire.end(errEnded)
	<-s.stopped
	s.link() // once its lock was had, no read is begun any more
	s.waiting.Wait()
}

// A call is a request and its answer. The answer may come when the caller has given up.
type call struct {
	op    int32
	frame frame
	link  *link // on which it was sent
	sent  time.Time

	done chan struct{} // closed when it is answered, or will not be
	err  error
	zxid int64 // of the answer

	// The operation decides which of these fields the answer sets.
	failed int32    // the error of the part for which a Multi was not done
	path   string   // of the node that was made
	data   []byte   // of a node
	names  children // of a node
	acl    []client.ACL
	stat   stat

	urgent bool  // it needs no slot
	read   *read // whose request it is, or nil
}

func newCall(p frame) *call {
	return &call{op: int32(binary.BigEndian.Uint32(p[8:])), frame: p, done: make(chan struct{})}
}

func urgent(p frame) *call {
	c := newCall(p)
	c.urgent = true
	return c
}

// send puts a call on its way, as soon as there is a slot for it and a connection; it goes with the next flush. A call
// that is put on its way first reaches the server first, or not at all.
func (s *session) send(ctx context.Context, c *call) error {
	if !c.urgent {
		if err := s.take(ctx, s.slots); err != nil {
			return err
		}
	} else if ctx.Err() != nil {
		return s.unanswered(ctx)
	}
	for {
		s.mu.Lock()
		l, up := s.on, s.up
		s.mu.Unlock()
		if l != nil && l.add(c) {
			return nil
		}
		if err := s.until(ctx, up); err != nil {
			if !c.urgent {
				<-s.slots
			}
			return notDone(err)
		}
	}
}

// link returns the connection, or nil while there is none.
func (s *session) link() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// flush sends what was put on its way.
func (s *session) flush() {
	if l := s.link(); l != nil {
		l.flush(inline)
	}
}

// finish ends a call that was sent.
func (s *session) finish(c *call, err error) {
	c.err = err
	if !c.urgent {
		<-s.slots
	}
	if c.read != nil {
		s.follow(c.read)
	}
	close(c.done)
}

// wait returns the error of the answer, or why there is none as soon as ctx ends or the session is over.
func (s *session) wait(ctx context.Context, c *call) error {
	if err := s.until(ctx, c.done); err != nil {
		return err
	}
	if c.err != nil && s.wire.life.Err() != nil && outcome(c.err) != driver.Refused {
		return context.Cause(s.wire.life)
	}
	if errors.Is(c.err, client.ErrNoAuth) {
		user := "clients without a Digest"
		if s.digest != nil {
			user = s.digest.String()
		}
		if c.read != nil {
			return fmt.Errorf("node %s: an ACL forbids it to %s: %w", legible.Quote(c.read.at.path), user, c.err)
		}
		return fmt.Errorf("an ACL forbids it to %s: %w", user, c.err)
	}
	return c.err
}

// ask sends a call and waits for the answer.
func (s *session) ask(ctx context.Context, c *call) error {
	if err := s.send(ctx, c); err != nil {
		return err
	}
	s.flush()
	return s.wait(ctx, c)
}

// do is ask for a frame whose answer is not needed.
func (s *session) do(ctx context.Context, p frame) error { return s.ask(ctx, newCall(p)) }

// propose has a quorum look at a node.
func (s *session) propose(ctx context.Context, path string) error {
	return s.ask(ctx, urgent(newFrame(opMulti).part(opCheck).check(path, -1).end()))
}

// syncing brings the server that the session is connected to up to the leader.
func syncing(path string) frame { return newFrame(opSync).text(path) }

// take waits for a place among the places of a sort.
func (s *session) take(ctx context.Context, places chan<- struct{}) error {
	if ctx.Err() == nil {
		select {
		case places <- struct{}{}:
			return nil
		case <-ctx.Done():
		case <-s.wire.life.Done():
		}
	}
	return notDone(s.unanswered(ctx))
}

// until waits until done is closed. It returns why it was not as soon as ctx ends or the session is over.
func (s *session) until(ctx context.Context, done <-chan struct{}) error {
	if happened(done) { // an answer that is there counts, although ctx may have ended since
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	case <-s.wire.life.Done():
	}
	return s.unanswered(ctx)
}

// unanswered returns the error of a call that ctx or the session has ended. Why there is no connection, that a server
// does not accept the credentials, say, tells nothing of the call.
func (s *session) unanswered(ctx context.Context) error {
	if s.wire.life.Err() != nil {
		return context.Cause(s.wire.life)
	}
	if why := s.wire.last.Load(); why != nil {
		return attemptError{fmt.Errorf("%w: %w", context.Cause(ctx), *why), driver.Unknown}
	}
	return context.Cause(ctx)
}

// happened reports whether a channel has something to say.
func happened[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
