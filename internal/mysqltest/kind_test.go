package mysqltest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

var kindsToRun = flag.String("on", "MariaDB", "the servers that all tests run on, one after the other: MariaDB,MySQL is both")

// A server is a MariaDB or a MySQL of embedtest.
type server interface {
	Endpoint() string
	DSN(database string) string
	Pause()
	Resume()
	Kill()
	Restart(ctx context.Context) error
	StepClock(by time.Duration) error
	io.Closer
}

// A kind is one of the two, and what differs in the SQL and the settings of tests.
type kind struct {
	name    string
	missing error // of start, where there is no such server
	start   func(ctx context.Context, dir string, options ...embedtest.Option) (server, error)

	isolation   string // the variable
	tablespaces string // the table
	disk        string // room for its files and little more
	smallFiles  []embedtest.Option
	crowd       int // of entries, beside which a busy server renews a session of a second; 0: ten thousand
}

var kinds = []kind{
	{
		name: "MariaDB", missing: embedtest.ErrNoMariaDB,
		start: func(ctx context.Context, dir string, options ...embedtest.Option) (server, error) {
			return embedtest.StartMariaDB(ctx, dir, options...)
		},
		isolation: "tx_isolation", tablespaces: "information_schema.innodb_sys_tablespaces",
		disk: "200m", smallFiles: []embedtest.Option{embedtest.Setting("innodb_log_file_size = 8M")},
	},
	{
		name: "MySQL", missing: embedtest.ErrNoMySQL,
		start: func(ctx context.Context, dir string, options ...embedtest.Option) (server, error) {
			return embedtest.StartMySQL(ctx, dir, options...)
		},
		isolation: "transaction_isolation", tablespaces: "information_schema.innodb_tablespaces",
		disk: "400m", crowd: 1_000,
	},
}

// on is the kind of server that tests run on now.
var on kind

// shared is the server of all tests that do it no harm. Each has a database of its own.
var shared *locktest.Shared[server]

// runOnEach runs all tests on each kind of server that is asked for. The system has MariaDB, so make test asks for that
// alone, and make long for both.
func runOnEach(m *testing.M) (code int) {
	flag.Parse()
	for name := range strings.SplitSeq(*kindsToRun, ",") {
		i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "-on %s: the servers are MariaDB and MySQL\n", *kindsToRun)
			return 2
		}
		on = kinds[i]
		fmt.Println("on", on.name)
		shared = &locktest.Shared[server]{Start: func(ctx context.Context, dir string) (server, error) {
			return startServer(ctx, dir)
		}}
		if of := shared.Run(m); of != 0 {
			fmt.Println("FAILED on", on.name)
			code = of
		}
	}
	return code
}

func startServer(ctx context.Context, dir string, options ...embedtest.Option) (server, error) {
	// The server may run as another user, who has to get there.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // nothing is to be kept from anyone
		return nil, err
	}
	return on.start(ctx, dir+"/server", options...)
}

// serverOf returns the server that tests share.
func serverOf(t testing.TB, of *locktest.Shared[server]) server {
	t.Helper()
	is, err := of.Get()
	refuseOrSkip(t, err)
	return is
}

// newServer starts a server of t's own, as the functions of embedtest do that begin with the name of one.
func newServer(t testing.TB, options ...embedtest.Option) server {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) //nolint:gosec // as above
	is, err := startServer(within(t, 2*soon), dir, options...)
	refuseOrSkip(t, err)
	t.Cleanup(func() { require.NoError(t, is.Close()) })
	return is
}

// refuseOrSkip ends a test if there is an error, and skips it if that only says that there is no such server here.
func refuseOrSkip(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, on.missing) && os.Getenv("FARSYNC_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

// numbers is a table of one column, seq, from 1 to n.
func numbers(n int) string {
	return fmt.Sprintf("JSON_TABLE(CONCAT('[0', REPEAT(',0', %d), ']'), '$[*]' COLUMNS (seq FOR ORDINALITY)) numbers", n-1)
}

// status is a counter of the server.
func (d database) status(t testing.TB, of string) (now int) {
	t.Helper()
	require.NoError(t, d.admin.QueryRowContext(within(t, soon), "SHOW GLOBAL STATUS LIKE '"+of+"'").Scan(&of, &now))
	return now
}
