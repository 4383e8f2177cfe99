package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A making is what the pool may do for a caller who may give up: it goes on to make a connection, or has not begun.
type making struct {
	call  context.Context //nolint:containedctx // it ends with the call
	stop  func() bool     // has the pool hear no more of the call's end
	begun bool            // of use to whoever makes the connection alone
}

// makes is where the context of a connection that is to be made has its making.
type makes struct{}

// begun is called before a connection is made, and fails if nobody waits for it any more.
func begun(ctx context.Context) error {
	m, is := ctx.Value(makes{}).(*making)
	if !is || m.begun {
		return nil
	}
	if m.begun = m.stop(); !m.begun {
		return context.Cause(m.call)
	}
	return nil
}

// fromPool returns a connection of the pool. A connection that is being made when its caller gives up is made all the
// same: where that takes longer than an attempt has, no attempt would come to one otherwise. But the caller's place is
// free at once, for a server that has moved may never answer, and the next call has another made if this one is not
// there yet. Left to the pool, both would stay there, one more than the Store is to have, until a renewal sheds it:
// after twenty minutes, if the TTL is an hour. So a connection that nobody waits for comes to the pool by free, which
// keeps no more than the Store is to have.
func (s *service) fromPool(ctx context.Context) (*pgxpool.Conn, error) {
	acquire := func() (*pgxpool.Conn, error) {
		within, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		m := &making{call: ctx, stop: context.AfterFunc(ctx, end)}
		defer m.stop()
		return s.pool.Acquire(context.WithValue(within, makes{}, m))
	}
	return made(ctx, s, acquire, s.free)
}

// made returns the connection that a function makes, or an error once ctx ends. A connection that comes later is given
// up. Close, whose pool ends what is being made, waits for the function.
func made[C any](ctx context.Context, s *service, connect func() (C, error), giveUp func(C)) (conn C, err error) {
	type answer struct {
		conn C
		err  error
	}
	got := make(chan answer)
	if err := s.startMaking(func() {
		conn, err := connect()
		select {
		case got <- answer{conn, err}:
		case <-ctx.Done():
			if err == nil {
				giveUp(conn)
			}
		}
	}); err != nil {
		return conn, err
	}
	select {
	case a := <-got:
		return a.conn, a.err
	case <-ctx.Done():
		return conn, context.Cause(ctx)
	}
}

// giveBack gives a connection back to the pool, unless the Store has as many as it is to have, and reports whether: a
// connection for each place, and a connection that renews the session. While room is scarce one place is in use, or is
// about to be: calls that have more give them back to be closed, and places says which. A call that takes a connection
// just now may not be counted yet. Then this one is kept, and is one too many until that call gives back its own.
func (s *service) giveBack(conn *pgxpool.Conn) bool {
	s.giving.Lock()
	defer s.giving.Unlock()
	most := s.calls
	if s.room.Scarce() {
		most = 1
	}
	if s.pool.Stat().IdleConns()+s.held.Load()+s.functions.returning.Load()+min(s.owned.Load(), 1) > most {
		return false
	}
	if !s.functions.beginRelease(s, conn) {
		conn.Release()
	}
	return true
}
