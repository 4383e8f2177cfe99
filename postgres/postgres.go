package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/sqlstore"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// Listen leads to the server itself, if config leads to a proxy such as PgBouncer, which lends its connections for a
	// transaction. A Store that waits listens there. Without it such a Store looks now and then. The BeforeConnect of
	// config is called with a copy of it, too.
	Listen *pgx.ConnConfig

	// Connections is how many connections the Store has at most, from 2: one renews its session, the other is for all
	// calls. With a third it listens, and with more it does several things at once. The default, 0, is two more than
	// MaxConns of the config, which is another bound: six, or two more than the machine has processors.
	Connections int
}

// share returns how many connections calls have, beside the connections that renew the session, and whether another
// listens. Most is what the config allows.
func (o *Options) share(most int32) (calls int32, listens bool, _ error) {
	n := o.Connections
	switch {
	case n == 0:
		return max(most, 1), true, nil
	case n < sqlstore.Least:
		return 0, false, fmt.Errorf("option Connections is %d: a Store needs %d", n, sqlstore.Least)
	case n == sqlstore.Least:
		return 1, false, nil
	default:
		return min(max(most, 1), int32(min(n-sqlstore.Least, math.MaxInt16))), true, nil //nolint:gosec // it is no larger
	}
}

//go:embed schema.sql
var schema string

// Schema returns the SQL that makes the tables and functions of farsync, or brings the tables and functions of an
// earlier version up to date, for programs that keep their migrations themselves. Running it again changes nothing.
func Schema() string { return schema }

// alone begins a migration once no other is under way in the database. Every role may take that lock and keep it, so it
// is not waited for without a bound. Schema itself locks the tables, and what it does after that only one does at a
// time; of two that both make the tables, one fails.
const alone = `BEGIN ISOLATION LEVEL READ COMMITTED;
DO $$
DECLARE
  usual text := current_setting('lock_timeout');
BEGIN
  PERFORM set_config('lock_timeout', '2000', true);
  PERFORM pg_advisory_xact_lock(7236548104); -- of our own making
  PERFORM set_config('lock_timeout', usual, true);
EXCEPTION WHEN lock_not_available THEN
END $$;
`

// Migrate runs Schema in one transaction. Programs that call it at once do no harm. It needs the right to create
// tables, which a Store does not need afterwards. It makes all in the first schema of the search path, and fails if
// another schema of the path has tables of farsync and the first has none. When a schema of the path was renamed, call
// it again. If the server does not answer, the error wraps farsync.ErrUnavailable: call it again then.
func Migrate(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	findProxies(config, func(bool, int64) {})
	cancelStatements(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return &farsync.Error{Op: "migrate", Path: "postgres", Err: sqlstore.OfMigrate(judge(err, false), farsync.ErrUnavailable)}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.PgConn().Exec(ctx, alone+schema+";COMMIT").ReadAll(); err != nil {
		return &farsync.Error{Op: "migrate", Path: "postgres", Err: sqlstore.OfMigrate(judge(err, false), farsync.ErrUnavailable)}
	}
	return nil
}

// Open opens a session in the database and returns a Store in it. The tables must be there: see [Migrate]. config comes
// from pgxpool.ParseConfig, and Open does not change it. The Store has connections of its own: one for renewals
// while it does nothing, and as many more as it needs, up to six or two more than MaxConns of config; a server with
// little room is asked for two in all. ctx governs Open alone.
//
// Where config names several servers, or a name stands for several, replicas are passed over.
//
// Open fails if the server does not answer, or is a replica, until ctx ends, or for 5 seconds if ctx has no deadline,
// with an error that wraps farsync.ErrUnavailable; if the tables are not there, or may not be used; and if an option is
// not valid.
func Open(ctx context.Context, config *pgxpool.Config, options *Options) (*farsync.Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Logger = aside.Logger(o.Logger) // one queue for what the Store and its driver say
	s, err := NewService(config, &o)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "postgres", Err: err}
	}
	return farsync.Open(ctx, s, &o.Options)
}
