package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errUnconfirmed is the error of a write that the server has committed and a synchronous replica may not have
// confirmed. Its outcome is unknown: a replica that is promoted may not have it.
//
// A server that has a synchronous replica commits, and answers once the replica has confirmed that. If it is asked to
// cancel the statement meanwhile, it shows the commit to all and answers with success, and a warning. So a server that
// is cut off from its replica would give locks to the clients on its side, and the replica, once it is promoted, to the
// others.
//
// The Store sends the write again, and that waits for the replica anew: whatever it finds, farsync_create and
// farsync_join move the row of the queue, a renewal moves the row of the session, and a commit waits for all that was
// written before it. Two need not wait: a Delete that finds its entry gone, and a Replace that finds it replaced. If
// what they find is lost, the entry stands again as it was, which gives a lock to none.
//
// A read sees such a commit at once, and a lock may be granted by it: an entry ahead that was deleted, or a session
// that ran out. That harms nothing. The entry that is granted, and its session, were confirmed. They stand at the
// replica, too, behind what was deleted here.
var errUnconfirmed = errors.New("the commit may not have been confirmed by a synchronous replica")

// findUnconfirmed has each connection note that a commit was not confirmed. The routine is the same in all languages of
// a server. Where client_min_messages holds the warning back, a cancel of the Store's own is seen by its ctx, and an
// operator's is not seen.
func findUnconfirmed(c *pgx.ConnConfig) {
	also := c.OnNotice
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "01000" && n.Routine == "SyncRepWaitForLSN" {
			memoOf(conn).unconfirmed = true // read by the call that is under way, which this is in
		}
		if also != nil {
			also(conn, n)
		}
	}
}
