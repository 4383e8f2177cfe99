package postgres

import (
	"cmp"
	"context"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/handshake"
)

// safely calls a function while a connection is made or closed. If it panics, that has failed.
func (s *service) safely(function string, f func() error) error {
	return aside.Safely(s.log, function, f)
}

// guarded returns a function that is called with a connection while that is made, or nil where there is none. If it
// panics, it has failed.
func guarded[C any](s *service, function string, f func(context.Context, C) error) func(context.Context, C) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, conn C) error {
		return s.safely(function, func() error { return f(ctx, conn) })
	}
}

// guardFunctions has a panic of a function that is called while a connection is made, and a function that blocks while
// the connection is used, do no harm.
func (s *service) guardFunctions(c *pgx.ConnConfig) {
	c.Tracer = s.traced(c.Tracer)
	s.boundDials(c)
	build := c.BuildFrontend
	c.BuildFrontend = func(r io.Reader, w io.Writer) (front *pgproto3.Frontend) {
		if s.safely("BuildFrontend", func() error { front = build(r, w); return nil }) != nil {
			front = pgproto3.NewFrontend(r, w)
		}
		return front
	}
	c.ValidateConnect = guarded(s, "ValidateConnect", c.ValidateConnect)
	c.AfterConnect = guarded(s, "AfterConnect", c.AfterConnect)
	c.TLSConfig = handshake.Guard(s.log, c.TLSConfig)
	for _, other := range c.Fallbacks {
		other.TLSConfig = handshake.Guard(s.log, other.TLSConfig)
	}
	if notice := c.OnNotice; notice != nil {
		c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
			_ = spentBy(conn).call(&s.functions.notices, s.log, "OnNotice", func() { notice(conn, n) })
		}
	}
	if failed := c.OnPgError; failed != nil {
		c.OnPgError = func(conn *pgconn.PgConn, e *pgconn.PgError) bool {
			keeps := false
			if spentBy(conn).call(&s.functions.failures, s.log, "OnPgError", func() { keeps = failed(conn, e) }) != nil {
				return !strings.EqualFold(e.Severity, "FATAL") // as pgx has it by default
			}
			return keeps
		}
	}
}

// boundDials has the functions that look up a host and connect to it end with their ctx. A request to cancel has one, too,
// and the call that is cancelled waits for it.
func (s *service) boundDials(c *pgx.ConnConfig) {
	dial, lookup, most := c.DialFunc, c.LookupFunc, cmp.Or(c.ConnectTimeout, connectFor)
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		return aside.Connect(ctx, &s.functions.dials, s.log, "DialFunc", most, func(context.Context) (net.Conn, error) {
			return dial(ctx, network, address)
		})
	}
	c.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		var addresses []string
		err := s.functions.lookups.CallAs(ctx, s.log, "LookupFunc", most, func(context.Context) (err error) {
			addresses, err = lookup(ctx, host)
			return err
		})
		if err != nil {
			return nil, err
		}
		return addresses, nil
	}
}
