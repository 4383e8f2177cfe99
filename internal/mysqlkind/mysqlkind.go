//go:build unix

// Package mysqlkind starts the server that tests of MySQL run on: MariaDB, which systems have a package of, or MySQL itself
// where the flag -on says so.
package mysqlkind

import (
	"context"
	"flag"
	"testing"

	"github.com/farsync/farsync/embedtest"
)

// The kinds, as -on names them.
const (
	MariaDB = "MariaDB"
	MySQL   = "MySQL"
)

var on = flag.String("on", MariaDB, "the server of the tests that need a MySQL: "+MariaDB+", or "+MySQL+", of which FARSYNC_MYSQL says the version")

// A Server is either of them.
type Server interface {
	Endpoint() string
	DSN(database string) string
	Pause()
	Resume()
	Kill()
	Restart(ctx context.Context) error
	FillDisk() error
}

// Start starts one for t, as [embedtest.MariaDB] does.
func Start(t testing.TB, options ...embedtest.Option) Server {
	t.Helper()
	switch *on {
	case MariaDB:
		return embedtest.MariaDB(t, options...)
	case MySQL:
		return embedtest.MySQL(t, options...)
	}
	t.Fatalf("-on %s: the servers are %s and %s", *on, MariaDB, MySQL)
	return nil
}

// Of returns the value for the kind of server that tests run on, where the two differ.
func Of[T any](mariaDB, mysql T) T {
	if *on == MySQL {
		return mysql
	}
	return mariaDB
}
