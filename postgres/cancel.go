package postgres

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// cancelStatements has the server give up the statement of a call that ctx ends. It then was not carried out for certain, and
// the connection is good. It notes in toServer whether the connection made last leads to the server itself.
func cancelStatements(c *pgx.ConnConfig, toServer *atomic.Bool) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		h := &canceler{conn: conn}
		conn.CustomData()[cancelerKey] = h
		return h
	}
	after := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout) // which is over for pgx by now
		defer cancel()
		is, err := direct(ctx, conn)
		if h, ok := conn.CustomData()[cancelerKey].(*canceler); ok {
			h.direct = is
			toServer.Store(is)
		}
		if err != nil || after == nil {
			return err
		}
		return after(ctx, conn)
	}
}

// direct reports whether a connection is one to the server itself. A proxy gives out numbers of its own.
func direct(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	answer, err := conn.Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil || len(answer) != 1 || len(answer[0].Rows) != 1 || len(answer[0].Rows[0]) != 1 {
		return false, err
	}
	return string(answer[0].Rows[0][0]) == strconv.FormatUint(uint64(conn.PID()), 10), nil
}

const cancelerKey = "farsync"

// A canceler ends what a connection does. While it connects, the key that a request to cancel needs is not there yet, or is being
// written just then: there is no statement either, so the connection is given up. So is one to a proxy: PgBouncer 1.18 dies of a
// request to cancel whose client does not wait for the end of it.
type canceler struct {
	conn   *pgconn.PgConn
	direct bool // set between two watches
	by     ctxwatch.Handler
}

func (h *canceler) HandleCancel(ctx context.Context) {
	h.by = &pgconn.DeadlineContextWatcherHandler{Conn: h.conn.Conn()}
	if h.direct {
		h.by = &pgconn.CancelRequestContextWatcherHandler{Conn: h.conn, DeadlineDelay: grace}
	}
	h.by.HandleCancel(ctx)
}

func (h *canceler) HandleUnwatchAfterCancel() { h.by.HandleUnwatchAfterCancel() }

// isDirect reports what direct has.
func isDirect(conn *pgconn.PgConn) bool {
	h, ok := conn.CustomData()[cancelerKey].(*canceler)
	return ok && h.direct
}
