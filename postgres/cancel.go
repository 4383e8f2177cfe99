package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/farsync/farsync/internal/pause"
)

// cancelStatements has the server give up the statement of a call that ctx ends. It then was not carried out for certain, unless it is
// errUnconfirmed, and the connection is good.
func cancelStatements(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { return &canceler{conn: conn} }
}

// findProxies has each connection know whether it leads to the server itself: see isDirect. It tells made of each that is made. A
// replica is passed over: what it shows may be older than the call, and an entry that it does not have yet would be taken for gone.
func findProxies(c *pgx.ConnConfig, made func(direct bool)) {
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectFor)
	dial, validate := c.DialFunc, c.ValidateConnect
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == nowhere {
			_ = pause.For(ctx, afterWrite)
			return nil, errProxy
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: conn}, nil
	}
	// This comes first: pgx goes on with a server that it does not prefer if there is no other. After an error it tries the next.
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		is, err := direct(ctx, conn)
		if err != nil {
			return err
		}
		if w := wireOf(conn); is && w != nil {
			w.direct = true
		}
		made(is)
		if validate == nil {
			return nil
		}
		return validate(ctx, conn)
	}
}

var errReplica = errors.New("the server is a replica, which has read-only transactions alone")

// direct reports whether a connection is one to the server itself. A proxy gives out numbers of its own. A connection to the server itself is
// at the isolation level that is needed afterwards.
func direct(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	const ask = "SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('default_transaction_isolation')"
	answer, err := conn.Exec(ctx, ask).ReadAll()
	if err != nil || len(answer) != 1 || len(answer[0].Rows) != 1 || len(answer[0].Rows[0]) != 3 {
		return false, err
	}
	pid, replica, level := string(answer[0].Rows[0][0]), string(answer[0].Rows[0][1]), string(answer[0].Rows[0][2])
	if replica == "t" {
		return false, errReplica
	}
	if pid != strconv.FormatUint(uint64(conn.PID()), 10) {
		return false, nil
	}
	return true, setLevel(ctx, conn, level)
}

// A wire is a connection that says where it leads only once that is known to be the server itself. When pgx gives up a connection, it sends
// a request to cancel there. PgBouncer 1.18 ends, for all of its clients, when the client of such a request leaves before it was
// forwarded, as one does that ends or is cut off.
type wire struct {
	net.Conn

	direct bool // set before a call can use the connection
}

// RemoteAddr returns where a request to cancel is sent, the only use that pgx makes of it.
func (w *wire) RemoteAddr() net.Addr {
	if w.direct {
		return w.Conn.RemoteAddr()
	}
	return unsaid{}
}

const (
	nowhere = "nowhere"
	// afterWrite is longer than the 15 ms for which pgx has a timer run that begins with a write. It panics if the goodbye of a connection, which
	// is written once there was a request to cancel, finds the timer running that the failed write of a batch has left behind for some µs.
	afterWrite = 50 * time.Millisecond
)

var errProxy = errors.New("a proxy is sent no request to cancel")

// unsaid is the address of a wire that may lead to a proxy.
type unsaid struct{}

func (unsaid) Network() string { return nowhere }
func (unsaid) String() string  { return nowhere }

func wireOf(conn *pgconn.PgConn) *wire {
	raw := conn.Conn()
	if secured, ok := raw.(*tls.Conn); ok {
		raw = secured.NetConn()
	}
	w, _ := raw.(*wire)
	return w
}

// isDirect reports whether a connection is known to lead to the server itself.
func isDirect(conn *pgconn.PgConn) bool {
	w := wireOf(conn)
	return w != nil && w.direct
}

// A canceler ends what a connection does. While it connects, the key that a request to cancel needs is not there yet, or is being
// written just then: there is no statement either, so the connection is given up. So is one to a proxy.
type canceler struct {
	conn *pgconn.PgConn
	by   ctxwatch.Handler
}

// HandleCancel is called when ctx ends.
func (h *canceler) HandleCancel(ctx context.Context) {
	h.by = &pgconn.DeadlineContextWatcherHandler{Conn: h.conn.Conn()}
	if isDirect(h.conn) {
		h.by = &pgconn.CancelRequestContextWatcherHandler{Conn: h.conn, DeadlineDelay: grace}
	}
	h.by.HandleCancel(ctx)
}

// HandleUnwatchAfterCancel is called when what ctx was for has ended.
func (h *canceler) HandleUnwatchAfterCancel() { h.by.HandleUnwatchAfterCancel() }
