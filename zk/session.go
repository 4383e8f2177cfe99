package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/recipe"
)

// A session is one ZooKeeper session, with a client of its own that never opens another: what is asked for in a
// session is done in it or not at all.
//
// How long it is proved to live is a matter of Syncs. The server that a client is connected to answers pings and reads
// by itself, also when it is cut off from the leader, which alone decides that a session has expired. A Sync goes
// through the leader. But what the leader knows of a session's last sign of life is what the follower has told it, with
// a heartbeat of theirs, up to half a tick after. So an answered Sync proves that the leader knows of the one before
// it, T/4 earlier, and the deadline counts from when that was sent. A ConnectRequest goes through the leader too.
type session struct {
	*recipe.Session
	wire *wire
	conn *client.Conn
	over <-chan client.Event // closed when the library's loop has ended

	calls sync.WaitGroup // calls to the library, which may outlive their callers

	mu      sync.Mutex
	ending  bool              // no new calls
	watches map[string]*watch // by what they are for, one for all who wait
}

// A watch is a watch of the library's on a node. Nobody can take it back: it stays until it fires.
type watch struct {
	name   string
	fired  <-chan client.Event // gets an event and is closed
	stat   client.Stat         // of the node when it was set
	data   []byte              // likewise
	names  []string            // of its children, likewise
	minded bool                // a goroutine waits for it; guarded by the session
}

// openSession connects to one of the servers, and returns the session in it.
func (s *Store) openSession(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, max(s.options.TTL, openFor))
	defer cancel()
	w := newWire(s.options.TTL, s.options.dialer())
	conn, events, err := client.Connect(s.servers, s.options.TTL,
		client.WithDialer(w.dial), client.WithHostProvider(&hosts{wire: w}), client.WithMaxBufferSize(maxFrame),
		client.WithLogInfo(false), client.WithLogger(logger{s.options.Logger}))
	if err != nil {
		return nil, err
	}
	opened := &session{wire: w, conn: conn, over: events, watches: map[string]*watch{}}
	select {
	case <-w.open:
		opened.Session = w.session
	case <-w.life.Done():
		err = context.Cause(w.life)
	case <-ctx.Done():
		err = fmt.Errorf("no answer from any of %v", s.servers)
		if why := w.trouble(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	if err == nil {
		bound, unbind := opened.Bind(ctx)
		err = s.authorize(bound, opened)
		unbind()
	}
	if err != nil {
		w.cut(err)
		// Behind, for ctx may have ended, and the library takes up to three seconds to close.
		s.behind(opened.join)
		return nil, err
	}
	return opened, nil
}

// keepAlive sends a Sync every quarter of the timeout until the session is over or ctx is.
func (s *Store) keepAlive(ctx context.Context, current *session) {
	ctx, cancel := current.Bind(ctx)
	defer cancel()
	every := current.TTL() / 4
	for wait := every; recipe.Pause(ctx, wait) == nil; {
		overdue, done := context.WithTimeout(ctx, every)
		_, err := call(overdue, current, func(c *client.Conn) (string, error) { return c.Sync("/") })
		done()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, client.ErrSessionExpired):
			current.End(errExpired)
			return
		case err != nil:
			if s.keeper.Announce(recipe.Suspended) {
				s.options.Logger.Warn("session suspended", "error", err)
			}
			// The connection may be one to a server that is frozen, or cut off from its leader. Another may be better.
			if !errors.Is(err, client.ErrConnectionClosed) {
				current.wire.reconnect()
			}
			wait = every / 5
		default:
			if s.keeper.Announce(recipe.Connected) {
				s.options.Logger.Info("session connected again")
			}
			wait = every
		}
	}
}

// drop lets go of a session that was lost, without ending it at the server.
func (s *Store) drop(lost *session) {
	lost.wire.cut(lost.Err())
	// Behind, for the library takes a second or more to close, and others wait for the next session.
	s.behind(lost.join)
}

// behind runs f in a goroutine that Close joins; while the Store is being closed, right here. Only of a Store that never
// came to be, because Open failed, nobody waits for it.
func (s *Store) behind(f func()) {
	if !s.keeper.Behind(func(context.Context) { f() }) {
		f()
	}
}

// finish ends a session at the server, which removes its entries.
func (s *Store) finish(last *session) error {
	last.mu.Lock()
	last.ending = true
	last.mu.Unlock()
	// Returns when the server has answered, or after a second.
	last.conn.Close()
	var err error
	select {
	case <-last.wire.ended:
	default:
		if !errors.Is(context.Cause(last.wire.life), errExpired) {
			err = errors.New("the server did not confirm the end of the session, which runs out by itself")
		}
	}
	last.wire.cut(recipe.ErrClosed)
	last.join()
	return err
}

// join returns when nothing of the session runs any more. The wire must have been cut.
func (s *session) join() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.conn.Close()
	for range s.over {
	}
	s.calls.Wait()
}

// An answer is what a call to the library came to.
type answer[T any] struct {
	value T
	err   error
}

// start makes a call to the library in a goroutine that join waits for, and returns where its answer will be. The
// library knows of no contexts, and may hold a call for as long as the session lives.
func start[T any](s *session, f func(*client.Conn) (T, error)) <-chan answer[T] {
	answered := make(chan answer[T], 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		answered <- answer[T]{err: client.ErrConnectionClosed}
		return answered
	}
	s.calls.Go(func() {
		value, err := f(s.conn)
		answered <- answer[T]{value, err}
	})
	return answered
}

// call returns the answer of a call to the library, or the cause of ctx's end as soon as that is first.
func call[T any](ctx context.Context, s *session, f func(*client.Conn) (T, error)) (T, error) {
	select {
	case a := <-start(s, f):
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
