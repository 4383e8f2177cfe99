package postgres

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/recipe"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// Listen leads to the server itself, if config leads to a proxy such as PgBouncer, which lends its connections for a
	// transaction. A Store that waits listens there. Without it such a Store looks now and then. The BeforeConnect of config is called
	// with a copy of it, too.
	Listen *pgx.ConnConfig
}

//go:embed schema.sql
var schema string

// Schema returns the SQL that makes the tables and functions of farsync, or brings those of an earlier version up to date, for
// programs that keep their migrations themselves. Running it again changes nothing.
func Schema() string { return schema }

// Migrate runs Schema in one transaction. Programs that call it at once do no harm. It needs the right to create tables, which
// a Store does not need afterwards. It makes all in the first schema of the search path, and fails if another schema of the path has tables of
// farsync and the first has none. When a schema of the path was renamed, call it again. If the server does not answer, the error wraps
// farsync.ErrUnavailable: call it again then.
func Migrate(ctx context.Context, config *pgx.ConnConfig) error {
	config = config.Copy()
	findProxies(config, func(bool) {})
	cancelStatements(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return &farsync.Error{Op: "migrate", Path: "postgres", Err: sqlstore.OfMigrate(judge(err, false), farsync.ErrUnavailable)}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const lock = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(7236548104);\n" // of our own making
	if _, err := conn.PgConn().Exec(ctx, lock+schema+";COMMIT").ReadAll(); err != nil {
		return &farsync.Error{Op: "migrate", Path: "postgres", Err: sqlstore.OfMigrate(judge(err, false), farsync.ErrUnavailable)}
	}
	return nil
}

// Open opens a session in the database and returns a Store in it. The tables must be there: see [Migrate]. config is one of
// pgxpool.ParseConfig, of which nothing is changed. The Store has connections of its own: as many as config says at most, one
// more for renewals when those are all in use, and one that listens while it waits. ctx governs Open alone.
//
// Where config names several servers, or a name stands for several, replicas are passed over.
//
// Open fails if the server does not answer, or is a replica, until ctx ends, or for 5 seconds if ctx has no deadline, with an
// error that wraps farsync.ErrUnavailable; if the tables are not there, or may not be used; and if an option is not valid.
func Open(ctx context.Context, config *pgxpool.Config, options *Options) (*farsync.Store, error) {
	if options == nil {
		options = new(Options)
	}
	s, err := NewService(config, options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "postgres", Err: err}
	}
	store, err := recipe.Open(ctx, s, options.Options)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "postgres", Err: err}
	}
	return store, nil
}
