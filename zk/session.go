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
	hosts   *hosts
	conn    *client.Conn
	mark    string        // what the names of this session's entries begin with
	stopped chan struct{} // closed when the library's loop has ended

	slots chan struct{}  // calls hold one each while the library works on them
	joins chan struct{}  // creates of entries hold one each, until they have seen the queue
	calls sync.WaitGroup // calls to the library, which may outlive their callers

	mu      sync.Mutex
	ending  bool              // no new calls
	reads   map[spot]*read    // those under way, and those whose watch has not fired
	sweepAt int               // so many reads are worth a look for those whose watch has fired
	crowds  map[string]*queue // by name
	writes  map[string]*call  // those that the library has not answered, by the ID of their entry
}

// maxCalls bounds the calls in the library. Its queue has 16 places; what is behind that waits in goroutines, for as long
// as a server is silent. Renewals need no slot, so no crowd keeps them out.
const maxCalls = 256

// maxJoins bounds the entries that are being created. It is less, so that the reads that serve them have room too.
const maxJoins = maxCalls / 2

// connect returns a session that is about to be opened on a wire. The caller must end it.
func (s *service) connect(w *wire, ttl time.Duration) (*session, error) {
	in := &session{
		service: s, wire: w, hosts: &hosts{wire: w, parked: make(chan struct{})}, mark: newMark(), stopped: make(chan struct{}),
		slots: make(chan struct{}, maxCalls), joins: make(chan struct{}, maxJoins),
		reads: map[spot]*read{}, crowds: map[string]*queue{}, writes: map[string]*call{},
	}
	w.creating = in.creating
	conn, events, err := client.Connect(s.servers, ttl,
		client.WithDialer(w.dial), client.WithHostProvider(in.hosts), client.WithMaxBufferSize(maxFrame),
		client.WithLogInfo(false), client.WithLogger(logger{s.log}))
	if err != nil {
		return nil, err
	}
	in.conn = conn
	go func() { // ends with the library's loop; Drop and Close wait for it
		for range events {
		}
		close(in.stopped)
	}()
	return in, nil
}

// Granted returns the timeout that the server has granted, and the latest moment that is proved to have renewed it.
func (s *session) Granted() (ttl time.Duration, from time.Time) { return s.wire.granted() }

// Over is closed when the session is over for this client, for whatever reason.
func (s *session) Over() <-chan struct{} { return s.wire.life.Done() }

// Renew sends a Sync, or a transaction that changes nothing if there is something to prove. The answer moves what
// Granted returns by way of the wire.
func (s *session) Renew(ctx context.Context, prove []driver.Entry) error {
	s.wire.proposals.Store(len(prove) > 0)
	if len(prove) == 0 {
		return s.ask(ctx, urgent(), syncing("/"))
	}
	if err := s.propose(ctx, prove[0]); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil // said by a quorum as well
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
		case <-s.stopped:
		case <-s.wire.life.Done():
		}
		unhook()
	}
	s.Drop()
	if !s.wire.ended.Load() {
		return errors.New("the server did not confirm the end of the session, which runs out by itself")
	}
	return nil
}

// Drop lets go of the session without ending it at the server. The library is brought to where it looks for another
// server before it is closed: see hosts.
func (s *session) Drop() {
	s.wire.cut(errEnded)
	select {
	case <-s.hosts.parked:
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
	s.ending = true
}

// A call is one to the library. The library knows of no contexts, and may hold it for as long as the session lives. So it
// is made in a goroutine that Drop waits for.
type call struct {
	done chan struct{} // closed when the library has answered, or will not be asked
	err  error

	urgent bool          // it needs no slot
	entry  string        // the ID of the entry that it writes, if any
	sent   chan struct{} // of a create: closed when the request is on its way
	zxid   int64         // of the reply to a create; to be read only if there is no error
}

func newCall() *call { return &call{done: make(chan struct{}), err: errEnded} }

func urgent() *call { return &call{done: make(chan struct{}), err: errEnded, urgent: true} }

// launch makes a call, as soon as there is a slot for it.
func (s *session) launch(ctx context.Context, c *call, f func(*client.Conn) error) error {
	if !c.urgent {
		if err := s.take(ctx, s.slots); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		close(c.done)
		return nil
	}
	if c.entry != "" {
		s.writes[c.entry] = c
	}
	s.calls.Add(1)
	go s.run(c, f)
	return nil
}

func (s *session) run(c *call, f func(*client.Conn) error) {
	defer s.calls.Done()
	c.err = answer(f(s.conn))
	if !c.urgent {
		<-s.slots
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes[c.entry] == c {
		delete(s.writes, c.entry)
	}
	close(c.done)
}

// creating returns the call that makes a node, which is about to be sent, or nil.
func (s *session) creating(path []byte) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.writes[string(path)]
	if c != nil && !happened(c.sent) {
		close(c.sent)
	}
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
		user := "clients without a Digest"
		if s.digest != nil {
			user = s.digest.String()
		}
		return fmt.Errorf("an ACL forbids it to %s: %w", user, c.err)
	}
	return c.err
}

// ask makes a call and waits for the answer. What f sets is to be read only if there is no error.
func (s *session) ask(ctx context.Context, c *call, f func(*client.Conn) error) error {
	if err := s.launch(ctx, c, f); err != nil {
		return err
	}
	return s.wait(ctx, c)
}

// do is ask for any call.
func (s *session) do(ctx context.Context, f func(*client.Conn) error) error {
	return s.ask(ctx, newCall(), f)
}

// propose has a quorum look at the node of an entry.
func (s *session) propose(ctx context.Context, e driver.Entry) error {
	return s.ask(ctx, urgent(), func(c *client.Conn) error {
		_, err := c.Multi(&client.CheckVersionRequest{Path: e.ID, Version: -1})
		return err
	})
}

// syncing brings the server that the session is connected to up to the leader.
func syncing(path string) func(*client.Conn) error {
	return func(c *client.Conn) error {
		_, err := c.Sync(path)
		return err
	}
}

// deleting deletes a node, whatever its version.
func deleting(path string) func(*client.Conn) error {
	return func(c *client.Conn) error { return c.Delete(path, -1) }
}

// take waits for a place among those of a sort.
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

// happened reports whether a channel has something to say.
func happened[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
