package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// A session is one ZooKeeper session, with a client of its own that never opens another: what is asked for in a
// session is done in it or not at all.
//
// How long it is proved to live is a matter of requests that the leader answers. The server that a client is connected
// to answers pings and reads by itself, also when it is cut off from the leader, which alone decides that a session has
// expired. But what the leader knows of a session's last sign of life is what the follower has told it, with a
// heartbeat of theirs, up to half a tick after. So an answer of the leader's proves that it knows of the request before
// that one, T/4 earlier, and the deadline counts from when that was sent. A ConnectRequest goes through the leader too.
type session struct {
	*service
	wire    *wire
	conn    *client.Conn
	mark    string        // what the names of this session's entries begin with
	stopped chan struct{} // closed when the library's loop has ended

	slots chan struct{}  // calls hold one each while the library works on them
	joins chan struct{}  // creates of entries hold one each, until they have seen the queue
	calls sync.WaitGroup // calls to the library, which may outlive their callers

	mu      sync.Mutex
	ending  bool              // no new calls
	watches map[spot]*read    // each is shared by all its waiters
	sweepAt int               // so many watches are worth a look for those that have fired
	reads   map[spot]*read    // those under way
	crowds  map[string]*queue // by the path of the queue
}

// maxCalls bounds the calls in the library. Its queue has 16 places; what is behind that waits in goroutines, for as long
// as a server is silent. Renewals need no slot, so no crowd keeps them out.
const maxCalls = 256

// maxJoins bounds the entries that are being created. It is less, so that the reads that serve them have room too.
const maxJoins = maxCalls / 2

// newSession returns the session on a wire. The caller must end it.
func newSession(s *service, w *wire, conn *client.Conn, events <-chan client.Event) *session {
	opened := &session{
		service: s, wire: w, conn: conn, mark: newMark(), stopped: make(chan struct{}), slots: make(chan struct{}, maxCalls),
		joins:   make(chan struct{}, maxJoins),
		watches: map[spot]*read{}, reads: map[spot]*read{}, crowds: map[string]*queue{},
	}
	go func() { // ends with the library's loop; Drop and Close wait for it
		for range events {
		}
		close(opened.stopped)
	}()
	return opened
}

// Granted returns the timeout that the server has granted, and the latest moment that is proved to have renewed it.
func (s *session) Granted() (ttl time.Duration, from time.Time) { return s.wire.granted() }

// Over is closed when the session is over for this client, for whatever reason.
func (s *session) Over() <-chan struct{} { return s.wire.life.Done() }

// Renew sends a Sync, or a transaction that changes nothing if there is something to prove. The answer moves what
// Granted returns by way of the wire.
func (s *session) Renew(ctx context.Context, prove []driver.Entry) error {
	s.wire.proposals.Store(len(prove) > 0)
	if len(prove) > 0 {
		if err := s.propose(ctx, prove[0]); !errors.Is(err, client.ErrNoNode) {
			return err
		}
		return nil // said by a quorum as well
	}
	return s.wait(ctx, s.launch(func(c *client.Conn) error {
		_, err := c.Sync("/")
		return err
	}))
}

// propose has a quorum look at the node of an entry.
func (s *session) propose(ctx context.Context, e driver.Entry) error {
	return s.wait(ctx, s.launch(func(c *client.Conn) error {
		_, err := c.Multi(&client.CheckVersionRequest{Path: e.ID, Version: -1})
		return err
	}))
}

// Reset leaves the server, unless it has answered a moment ago. The library then goes through the servers in turn, with
// the session's ID, and the next that answers the handshake takes the session over.
func (s *session) Reset() { s.wire.reconnect() }

// Close ends the session at the server, which removes its entries.
func (s *session) Close(ctx context.Context) error {
	if ctx.Err() == nil && s.wire.life.Err() == nil {
		s.stop()
		unhook := context.AfterFunc(ctx, func() { s.wire.cut(errEnded) })
		s.conn.Close() // waits for the answer, a second at most
		select {
		case <-s.wire.ended:
		case <-s.stopped:
		case <-s.wire.life.Done():
		}
		unhook()
	}
	s.Drop()
	if !happened(s.wire.ended) {
		return errors.New("the server did not confirm the end of the session, which runs out by itself")
	}
	return nil
}

// Drop lets go of the session without ending it at the server. The library is brought to where it looks for another
// server before it is closed: see hosts.
func (s *session) Drop() {
	s.wire.cut(errEnded)
	select {
	case <-s.wire.parked:
	case <-s.stopped:
	}
	s.stop()
	s.conn.Close()
	<-s.stopped
	s.calls.Wait()
}

// stop refuses new calls.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending {
		s.ending = true
		close(s.wire.quit)
	}
}

// A call is one to the library.
type call struct {
	done chan struct{} // closed when the library has answered
	err  error
}

// launch makes a call to the library in a goroutine that Drop waits for. The library knows of no contexts, and may hold
// a call for as long as the session lives.
func (s *session) launch(f func(*client.Conn) error) *call {
	c := &call{make(chan struct{}), errEnded}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		close(c.done)
		return c
	}
	s.calls.Go(func() {
		defer close(c.done)
		c.err = definite(f(s.conn))
	})
	return c
}

// wait returns the error of the answer, or why there is none as soon as ctx ends or the session is over. What the library
// says of a connection that is gone for good is that the session is over.
func (s *session) wait(ctx context.Context, c *call) error {
	if err := s.until(ctx, c.done); err != nil {
		return err
	}
	if c.err != nil && s.wire.life.Err() != nil && outcome(c.err) != driver.Refused {
		return context.Cause(s.wire.life)
	}
	if errors.Is(c.err, client.ErrNoAuth) {
		return fmt.Errorf("an ACL forbids it to %s: %w", s.user(), c.err)
	}
	return c.err
}

// slot takes one of the places for calls of which there may be many. The call must free it.
func (s *session) slot(ctx context.Context) error { return s.take(ctx, s.slots) }

// take waits for a place among those of a kind.
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

func (s *session) free() { <-s.slots }

// do makes a call to the library and waits for the answer. What f sets is to be read only if there is no error.
func (s *session) do(ctx context.Context, f func(*client.Conn) error) error {
	if err := s.slot(ctx); err != nil {
		return err
	}
	return s.wait(ctx, s.launch(func(c *client.Conn) error {
		defer s.free()
		return f(c)
	}))
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

// unanswered returns the error of a call that ctx or the session has ended.
func (s *session) unanswered(ctx context.Context) error {
	if s.wire.life.Err() != nil {
		return context.Cause(s.wire.life)
	}
	if why := s.wire.last.Load(); why != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), *why)
	}
	return context.Cause(ctx)
}

// user says as whom the session asks.
func (s *session) user() string {
	if s.digest == nil {
		return "clients without a Digest"
	}
	return s.digest.String()
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
