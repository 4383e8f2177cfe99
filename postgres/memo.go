package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A memo is what the Store keeps with a connection. Only the goroutine that has the connection reads or writes it. The
// custom data of a connection has it from the start, and the Store writes nothing else there: a function of the config
// that is late may look at what the caller keeps in that map.
type memo struct {
	since       time.Time      // when the connection began to renew the session; zero if it does not
	rested      time.Time      // when a renewal has used it last
	listens     string         // the channel that it listens to, as the connection that renews the session
	used        time.Time      // when a call has used it last
	idle        *time.Duration // for how long it was idle when the pool gave it out; nil once that is dealt with
	asked       bool           // it has to answer before it is used
	unconfirmed bool           // a commit was not confirmed
	step        *budget        // of the step that uses it, or has last; nil if that has none
}

// memos is where the custom data of a connection has its memo.
const memos = "farsync"

func memoOf(conn *pgconn.PgConn) *memo {
	m, is := conn.CustomData()[memos].(*memo)
	if !is {
		m = new(memo)
		conn.CustomData()[memos] = m
	}
	return m
}

func memoOn(conn *pgxpool.Conn) *memo { return memoOf(conn.Conn().PgConn()) }
