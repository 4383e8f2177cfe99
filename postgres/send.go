package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/sqlstore"
)

// perform runs a statement on a connection. Its success is what every synchronous replica has that is to have it.
func (s *service) perform(ctx context.Context, conn *pgxpool.Conn, f func(sqlstore.Rows) error, statement string, args ...any) error {
	m := memoOn(conn)
	m.unconfirmed = false
	spend(ctx, conn.Conn().PgConn())
	if err := s.send(ctx, conn, f, statement, args...); err != nil {
		return err
	}
	if m.unconfirmed {
		return errUnconfirmed
	}
	return nil
}

// send runs a statement on a connection. Those to the server itself keep what they have parsed, and have the isolation
// level that is needed. Through a proxy each transaction sets its level first; and a call that gives up cancels nothing
// there, so what may have to wait is bounded. It is bounded, too, where all calls share one connection: they would all
// stand behind a row that somebody has locked.
func (s *service) send(ctx context.Context, conn *pgxpool.Conn, f func(sqlstore.Rows) error, statement string, args ...any) error {
	text := statements[statement][0]
	direct := isDirect(conn.Conn().PgConn())
	bounded := waiting[statement] && (!direct || s.places.Few())
	if direct && !bounded {
		return read(f)(conn.Query(ctx, text, append([]any{pgx.QueryExecModeCacheStatement}, args...)...))
	}
	var all pgx.Batch // which is one transaction, and one request
	if !direct {
		all.Queue(statements["level"][0])
	}
	if bounded {
		all.Queue(statements["bound"][0], s.bound(ctx, direct && statement != "end").Milliseconds())
	}
	before := all.Len()
	all.Queue(text, args...)
	answers := conn.SendBatch(ctx, &all)
	var err error
	for n := 0; n < before && err == nil; n++ {
		_, err = answers.Exec()
	}
	if err == nil {
		err = read(f)(answers.Query())
	}
	if end := answers.Close(); err == nil {
		err = end // the commit is behind the last row
	}
	return err
}

// waiting are the statements that wait for transactions of others with LockTx or a guard.
var waiting = map[string]bool{
	"create": true, "join": true, "leave": true, "enter": true, "turned": true, "delete": true, "replace": true, "tell": true, "write": true, "watch": true, "end": true,
}

// longest bounds how long a call waits for a lock while others wait for its connection.
const longest = time.Second / 2

// bound returns how long a statement waits for a lock at the server. The Store sends it again. Shared: others may wait
// for its connection.
func (s *service) bound(ctx context.Context, shared bool) time.Duration {
	left := connectFor
	if shared {
		left = min(time.Duration(s.ttl.Load())/20, longest)
	}
	if end, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(end))
	}
	return max(left, time.Millisecond) // 0 is for ever
}

// read has f read the rows of a statement, and returns how it has ended.
func read(f func(sqlstore.Rows) error) func(pgx.Rows, error) error {
	return func(rows pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		defer rows.Close()
		if err := f(rows); err != nil {
			return err
		}
		rows.Close() // the statement is carried out when its last row was read
		return rows.Err()
	}
}
