package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync/internal/pause"
)

// cancelStatements has the server give up the statement of a call that ctx ends. It then was not carried out for
// certain, unless it is errUnconfirmed, and the connection is good.
func cancelStatements(c *pgx.ConnConfig) {
	c.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { return &canceler{conn: conn} }
}

// findProxies has each connection know whether it leads to the server itself: see isDirect. It tells made of each that
// is made. A replica is passed over: what it shows may be older than the call, and an entry that it does not have yet
// would be taken for gone.
func findProxies(c *pgx.ConnConfig, made func(direct bool, most int64)) {
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
	// This comes first: pgx goes on with a server that it does not prefer if there is no other. After an error it tries
	// the next.
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		spend(ctx, conn) // it gives the connection its memo, before a function of the config can be late with it
		is, most, err := direct(ctx, conn)
		if err != nil {
			return err
		}
		if w := wireOf(conn); is && w != nil {
			w.direct = true
		}
		made(is, most)
		if validate == nil {
			return nil
		}
		return validate(ctx, conn)
	}
}

var errReplica = errors.New("the server is a replica, which has read-only transactions alone")

// direct reports whether a connection is one to the server itself. A proxy gives out numbers of its own. A connection
// to the server itself is at the isolation level that is needed afterwards, and notices the loss of its client. Most is
// how many connections the server can have.
func direct(ctx context.Context, conn *pgconn.PgConn) (is bool, most int64, _ error) {
	pid := strconv.FormatUint(uint64(conn.PID()), 10)
	answer, err := conn.Exec(ctx, "SELECT pg_backend_pid(), pg_is_in_recovery(), "+
		"current_setting('max_connections'), "+setLevel(pid)+", "+noticeLoss(pid)).ReadAll()
	if err != nil || len(answer) != 1 || len(answer[0].Rows) != 1 || len(answer[0].Rows[0]) != 5 {
		return false, 0, err
	}
	row := answer[0].Rows[0]
	if string(row[1]) == "t" {
		return false, 0, errReplica
	}
	most, _ = strconv.ParseInt(string(row[2]), 10, 64)
	return string(row[0]) == pid, most, nil
}

// noticeLoss is an expression that has the process of a connection to the server itself, whose number is pid, notice
// within a second that its client has gone. By default a process that waits for a lock notices nothing: the statement
// of a client that is dead, or has given up, would wait for as long as others lock the row, and count as a connection,
// and so would each that comes after it. A request to cancel may be late, or come before the process has read the
// statement, and is dropped then. Systems that cannot tell refuse the setting; the server does not say which do, and
// Linux can.
func noticeLoss(pid string) string {
	return "CASE WHEN pg_backend_pid() = " + pid + " AND version() ~* 'linux' AND current_setting('client_connection_check_interval') = '0' " +
		"THEN set_config('client_connection_check_interval', '1000', false) END"
}

// A wire is a connection that says where it leads only once that is known to be the server itself. When pgx gives up a
// connection, it sends a request to cancel there. PgBouncer 1.18 ends, for all of its clients, when the client of such
// a request leaves before it was forwarded, as one does that ends or is cut off.
type wire struct {
	net.Conn

	direct  bool        // set before a call can use the connection
	listens atomic.Bool // it is in no statement
	spent   bool        // nothing more is to be sent on it; set by whoever uses the connection, between statements
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
	// afterWrite is longer than the 15 ms for which pgx has a timer run that begins with a write. It panics if the goodbye
	// of a connection, which is written once there was a request to cancel, finds the timer running that the failed write
	// of a batch has left behind for some µs.
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

// serves reports whether a connection may be kept for another call.
func serves(conn *pgxpool.Conn) bool {
	w := wireOf(conn.Conn().PgConn())
	return !conn.Conn().IsClosed() && (w == nil || !w.spent)
}

// abandon closes a connection of the pool, which is still to be released, and waits for no goodbye. It is in no
// statement, so there is nothing to cancel, which would cost the server a process, and the caller the wait for it.
func abandon(conn *pgxpool.Conn) {
	if w := wireOf(conn.Conn().PgConn()); w != nil {
		w.spent = true
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Conn().Close(ctx)
}

// A canceler ends what a connection does. While it connects, the key that a request to cancel needs is not there yet,
// or is being written just then: there is no statement either, so the connection is given up. So is one to a proxy. A
// connection that listens is in no statement: it reads no further.
//
// pgx's own canceler waits for a tenth of a second after each request, for which the caller waited, too: the request
// might end the next statement of the connection. But the server sends its process the signal before it closes the
// connection of the request (SendCancelRequest, and processCancelRequest before PostgreSQL 18), and a process that
// reads its next statement drops a signal for the statement before (ProcessInterrupts while DoingCommandRead). The
// signal is pending when the end of the request is seen here, so it comes before anything that is sent on the
// connection after that. A connection for which that is not certain is spent: whoever has it gives it up, instead of
// giving it back to where the next call would find it and fail.
type canceler struct {
	conn *pgconn.PgConn
	told chan bool // has whether the server has been told and has answered; nil if it was not to be
}

// HandleCancel is called when ctx ends.
func (h *canceler) HandleCancel(context.Context) {
	h.told = nil
	if w := wireOf(h.conn); w == nil || !w.direct || w.spent || w.listens.Load() {
		_ = h.conn.Conn().SetDeadline(past)
		return
	}
	end := time.Now().Add(grace)
	_ = h.conn.Conn().SetDeadline(end)
	told := make(chan bool, 1)
	h.told = told
	go func() { // waited for by HandleUnwatchAfterCancel
		ctx, cancel := context.WithDeadline(context.Background(), end)
		defer cancel()
		err := h.conn.CancelRequest(ctx)
		told <- err == nil && ctx.Err() == nil
	}()
}

// HandleUnwatchAfterCancel is called when what ctx was for has ended.
func (h *canceler) HandleUnwatchAfterCancel() {
	if h.told != nil && !<-h.told {
		wireOf(h.conn).spent = true
		_ = h.conn.Conn().SetDeadline(past) // whatever its caller may still send fails before a byte of it is sent
		return
	}
	_ = h.conn.Conn().SetDeadline(time.Time{})
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// listenUntil waits for a notification until ctx ends. The connection is as good after that as before.
func listenUntil(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	if w := wireOf(conn.PgConn()); w != nil {
		w.listens.Store(true)
		defer w.listens.Store(false)
	}
	return conn.WaitForNotification(ctx)
}
