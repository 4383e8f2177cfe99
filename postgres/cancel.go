package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// cancelStatements has the server give up the statement of a call that ctx ends. It then was not carried out for certain, and
// the connection is good.
func cancelStatements(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		h := &canceler{conn: conn}
		conn.CustomData()[cancelerKey] = h
		return h
	}
	after := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if h, ok := conn.CustomData()[cancelerKey].(*canceler); ok {
			h.connected = true
		}
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}

const cancelerKey = "farsync"

// A canceler ends what a connection does. While it connects, the key that a request to cancel needs is not there yet, or is being
// written just then: there is no statement either, so the connection is given up.
type canceler struct {
	conn      *pgconn.PgConn
	connected bool // set between two watches
	by        ctxwatch.Handler
}

func (h *canceler) HandleCancel(ctx context.Context) {
	h.by = &pgconn.DeadlineContextWatcherHandler{Conn: h.conn.Conn()}
	if h.connected {
		h.by = &pgconn.CancelRequestContextWatcherHandler{Conn: h.conn, DeadlineDelay: grace}
	}
	h.by.HandleCancel(ctx)
}

func (h *canceler) HandleUnwatchAfterCancel() { h.by.HandleUnwatchAfterCancel() }
