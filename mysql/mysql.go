package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/aside"
	"github.com/farsync/farsync/internal/sqlstore"
)

// Options change how a Store behaves. The zero value of each field is a good choice.
type Options struct {
	farsync.Options

	// BeforeConnect, unless it is nil, is called before each connection is made, with a copy of what the DSN says. It
	// may set User, Passwd and TLS there: a password that is good for minutes, say, or certificates that were renewed.
	// A change of anything else has no effect that is promised. If it fails the connection is not made, and is tried
	// again as if the server had not answered; so it is if BeforeConnect has not returned after 5 seconds, or the DSN's
	// timeout if that is longer.
	BeforeConnect func(ctx context.Context, config *mysql.Config) error

	// Connections is how many connections the Store has at most, from 2: one renews its session, the other does
	// everything else. With more it does several things at once. The default is 7.
	Connections int
}

//go:embed schema.sql
var schema string

// Schema returns the SQL that makes the tables and procedures of farsync, for programs that keep their migrations
// themselves: one statement each, to be run in this order. Running them again changes nothing.
func Schema() []string {
	const delimiter = "//\n"
	_, text, _ := strings.Cut(schema, "DELIMITER "+delimiter)
	var list []string
	for statement := range strings.SplitSeq(strings.TrimSuffix(text, delimiter), delimiter) {
		list = append(list, strings.TrimSpace(statement)+"\n")
	}
	return list
}

// Migrate runs Schema. Programs that call it at once do no harm, and if it fails half-way it can be called again. It
// needs the rights to create tables and routines, which a Store does not need afterwards. dsn is as for Open. If the
// server does not answer, the error wraps farsync.ErrUnavailable.
func Migrate(ctx context.Context, dsn string) error {
	to, err := connectorOf(dsn, nil, nil, nil, nil)
	if err != nil {
		return &farsync.Error{Op: "migrate", Path: "mysql", Err: err}
	}
	db := sql.OpenDB(to)
	defer func() { _ = db.Close() }()
	for _, statement := range Schema() {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return &farsync.Error{Op: "migrate", Path: "mysql", Err: sqlstore.OfMigrate(judge(err, false), farsync.ErrUnavailable)}
		}
	}
	return nil
}

// Open opens a session in the database that dsn names and returns a Store in it. The tables must be there: see
// [Migrate]. dsn is in the form of github.com/go-sql-driver/mysql, with the name of the database. The Store has
// connections of its own. ctx governs Open alone.
//
// A program that has a mysql.Config gives its FormatDSN. The option BeforeConnect sets what a DSN cannot carry: a TLS
// configuration that has no name, and a password that changes.
//
// Open fails if the server does not answer, or is a replica, until ctx ends, or for 5 seconds if ctx has no deadline,
// with an error that wraps farsync.ErrUnavailable; if the tables are not there, may not be used, or are in another engine
// than InnoDB; and if an option is not valid.
func Open(ctx context.Context, dsn string, options *Options) (*farsync.Store, error) {
	var o Options
	if options != nil {
		o = *options
	}
	o.Logger = aside.Logger(o.Logger) // one queue for what the Store and its driver say
	s, err := NewService(dsn, &o)
	if err != nil {
		return nil, &farsync.Error{Op: "open", Path: "mysql", Err: err}
	}
	return farsync.Open(ctx, s, &o.Options)
}
