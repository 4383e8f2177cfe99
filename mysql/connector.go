package mysql

import (
	"context"
	dbdriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/handshake"
)

// connectFor bounds how long a connection may take to be made, unless the DSN has a longer timeout. A pool makes
// connections for callers that wait, one after the other and with a context that does not end: without a bound, a
// connection that is never answered keeps its place, and keeps the connections after it from being made, also when the
// server answers again. It is no shorter because a new connection takes up to nine round trips with TLS, and a server
// that has just come back lets many clients in at once. It does not depend on the TTL, for renewals do not wait for it:
// each makes a connection of its own.
const connectFor = 5 * time.Second

// settings are the settings of our connections, whatever the server's and the DSN's are. A call that waits for a row
// gives up after a second, the shortest time that both servers know, for its client may be gone: a broken connection
// ends no statement. The server closes a connection that says nothing for longer than we keep one. A COMMIT begins no
// other transaction, which nothing would commit, and the end of a session ends its entries. In some sets of
// characters, as GBK, a backslash that the client puts before a quote is half of a letter.
var settings = map[string]string{
	"autocommit": "1", "completion_type": "0", "foreign_key_checks": "1", "sql_mode": "'STRICT_TRANS_TABLES'",
	"character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4",
	"innodb_lock_wait_timeout": "1", "lock_wait_timeout": "5", "wait_timeout": "60",
}

// isolation is a statement of its own, for MySQL and MariaDB know the level by different variables. At READ UNCOMMITTED
// a look saw a DELETE that was taken back, and let the next in. Above READ COMMITTED a DELETE that finds nothing locks
// the gap in which others insert.
const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

// A connector makes connections within a bound.
type connector struct {
	config *mysql.Config
	rests  func() time.Duration // for how long a connection may rest at the server, if that is not as of settings
	bound  time.Duration
	made   func(ctx context.Context, conn dbdriver.Conn) // is told of each connection, unless it is nil
	log    *slog.Logger

	// Functions of the program, which may block, whatever their ctx says, or panic.
	before        func(context.Context, *mysql.Config) error // the option BeforeConnect, or nil
	asked, dialed *aside.Hook                                // of before, and of the attempt to connect
}

// connectorOf changes of a DSN what calls and their outcomes rest on. before is the option BeforeConnect. A
// connection may rest at the server for as long as rests returns, unless that is nil.
func connectorOf(
	dsn string, log *slog.Logger, before func(context.Context, *mysql.Config) error, rests func() time.Duration,
	made func(context.Context, dbdriver.Conn),
) (dbdriver.Connector, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true // one request, and no statement that is kept at the server: it has room for few
	config.MultiStatements = false
	config.RejectReadOnly = false // it hides what the server says
	config.Logger = new(mysql.NopLogger)
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	maps.DeleteFunc(config.Params, func(name, _ string) bool { // to the server Autocommit is autocommit
		_, ours := settings[strings.ToLower(name)]
		return ours
	})
	maps.Copy(config.Params, settings)
	_, err = mysql.NewConnector(config)
	return connector{
		config: config, rests: rests, bound: max(config.Timeout, connectFor), made: made, log: aside.Logger(log),
		before: before, asked: new(aside.Hook), dialed: new(aside.Hook),
	}, err
}

// Driver is there for database/sql.
func (connector) Driver() dbdriver.Driver { return mysql.MySQLDriver{} }

// Connect makes a connection, lets the user in, and sets the isolation level. The timeout of the client bounds the
// first alone.
func (c connector) Connect(ctx context.Context) (dbdriver.Conn, error) {
	bound, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	conn, err := c.connect(bound)
	if err == nil {
		if _, err = conn.(dbdriver.ExecerContext).ExecContext(bound, isolation, nil); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no connection within %v: %w", c.bound, err)
	}
	if errors.Is(err, dbdriver.ErrBadConn) {
		// By its own error the pool would dial twice more, at once: each client would, while a server closes every connection.
		err = fmt.Errorf("the server has closed a new connection: %v", err) //nolint:errorlint // as above
	}
	if err != nil {
		return nil, err
	}
	if c.made != nil {
		c.made(bound, conn)
	}
	return conn, nil
}

// connect makes a connection. It is not waited for longer than ctx: a dialer that the program has registered, which may
// be one for tcp, and functions of a TLS configuration may block.
func (c connector) connect(ctx context.Context) (dbdriver.Conn, error) {
	config, err := c.prepare(ctx)
	if err != nil {
		return nil, err
	}
	to, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return aside.Connect(ctx, c.dialed, c.log, "the attempt to connect", c.bound, to.Connect)
}

// prepare returns what the next connection is to be made with. A BeforeConnect that is late may change its copy for as
// long as it likes: nobody uses the copy then.
func (c connector) prepare(ctx context.Context) (*mysql.Config, error) {
	config := c.config.Clone()
	if c.rests != nil {
		config.Params["wait_timeout"] = strconv.FormatInt(int64(c.rests().Seconds()), 10)
	}
	if c.before != nil {
		if err := c.asked.Call(ctx, c.log, c.bound, func(ctx context.Context) error { return c.before(ctx, config) }); err != nil {
			return nil, err
		}
	}
	// What the names of the DSN stand for was looked up when the DSN was read.
	config.TLSConfig, config.ServerPubKey = "", ""
	config.TLS = handshake.Guard(c.log, config.TLS)
	return config, nil
}
