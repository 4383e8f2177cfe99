//go:build unix

package embedtest_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// A database is what all three servers have.
type database interface {
	Endpoint() string
	Restart(context.Context) error
	Pause()
	Resume()
	Kill()
	Close() error
}

func TestDatabasesKeepTheirData(t *testing.T) {
	for _, row := range []struct {
		name   string
		start  func(testing.TB, ...embedtest.Option) database
		client func(endpoint string, arguments ...string) *exec.Cmd
		kill   bool
	}{
		{
			"PostgreSQL", func(t testing.TB, o ...embedtest.Option) database { return embedtest.Postgres(t, o...) }, psql,
			suite.More(t, suite.Postgres),
		},
		{
			"MariaDB", func(t testing.TB, o ...embedtest.Option) database { return embedtest.MariaDB(t, o...) }, mariadb,
			suite.More(t, suite.MySQL),
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			keepsItsData(t, row.start(t, embedtest.Fsync()), row.client, row.kill)
			if row.kill { // what was written survives the server also where it is not synced
				keepsItsData(t, row.start(t), row.client, row.kill)
			}
		})
	}
}

// TestMySQLKeepsItsData: as the servers of the system do.
func TestMySQLKeepsItsData(t *testing.T) {
	suite.Long(t, suite.MySQL, "a server that the system does not have, which is killed and stopped")
	t.Parallel()
	keepsItsData(t, embedtest.MySQL(t, embedtest.Fsync()), mariadb, true)
	keepsItsData(t, embedtest.MySQL(t), mariadb, true) // what was written survives the server also where it is not synced
}

// keepsItsData asks a server for what it has kept, also after it was killed and stopped if it may be.
func keepsItsData(t *testing.T, server database, of func(endpoint string, arguments ...string) *exec.Cmd, kill bool) {
	t.Helper()
	query := func(text string) string {
		client := of(server.Endpoint())
		client.Stdin = strings.NewReader(text)
		out, err := client.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	require.Empty(t, query("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7);"))
	require.Equal(t, "7", query("SELECT n FROM kept;"))
	if !kill {
		return
	}
	server.Kill()
	_, err := net.Dial("tcp", server.Endpoint())
	require.Error(t, err, "a server that is dead refuses connections")
	require.NoError(t, server.Restart(within(t, soon)))
	require.Equal(t, "7", query("SELECT n FROM kept;"))
	server.Pause()
	server.Resume()
	require.Equal(t, "7", query("SELECT n FROM kept;"))
	server.Pause()
	require.NoError(t, server.Close())
}

// PostgreSQL serves each client in a process of its own.
func TestPausedPostgresStopsItsSessions(t *testing.T) {
	suite.Long(t, suite.Postgres, "stops and kills the server")
	if runtime.GOOS != "linux" {
		suite.NotHere(t, "Linux, to stop the processes of others")
	}
	server := embedtest.Postgres(t)
	client := psql(server.Endpoint())
	in, err := client.StdinPipe()
	require.NoError(t, err)
	out, err := client.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, client.Start())
	lines := bufio.NewScanner(out)
	ask := func(text string) string {
		_, err := fmt.Fprintln(in, text)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		return lines.Text()
	}
	pid := ask("SELECT pg_backend_pid();")
	server.Pause()
	require.Equal(t, "T", stateOf(t, pid))
	server.Resume()
	require.Equal(t, "1", ask("SELECT 1;"))
	server.Kill()
	_, err = os.Stat("/proc/" + pid)
	if err == nil {
		require.Contains(t, "XZ", stateOf(t, pid), "its sessions die with it")
	}
	require.NoError(t, in.Close())
	_ = client.Wait() // its server is gone
	require.NoError(t, server.Restart(within(t, soon)), "nothing of a session is in the way")
}

func stateOf(t *testing.T, pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	require.NoError(t, err)
	_, state, found := strings.Cut(string(stat), ") ")
	require.True(t, found)
	return state[:1]
}

func psql(endpoint string, arguments ...string) *exec.Cmd {
	return exec.Command("psql", append([]string{"-qtAX", "postgres://postgres@" + endpoint + "/postgres"}, arguments...)...)
}

func mariadb(endpoint string, arguments ...string) *exec.Cmd {
	host, port, _ := strings.Cut(endpoint, ":")
	return exec.Command("mariadb", append([]string{"--no-defaults", "-BN", "-h" + host, "-P" + port, "-uroot", "test"}, arguments...)...)
}

// TestPostgresReplica follows its server, is read only, and becomes a server of its own.
func TestPostgresReplica(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t, embedtest.Setting("work_mem = 7MB"))
	ask := func(of *embedtest.PostgresServer, text string) string {
		out, err := psql(of.Endpoint(), "-c", text).CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return strings.TrimSpace(string(out))
	}
	require.Equal(t, "7MB", ask(server, "SHOW work_mem"))
	require.Empty(t, ask(server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)"))
	replica := embedtest.PostgresReplica(t, server)
	require.Equal(t, "7", ask(replica, "SELECT n FROM kept"))
	require.Contains(t, ask(replica, "INSERT INTO kept VALUES (8)"), "read-only")
	require.Empty(t, ask(server, "INSERT INTO kept VALUES (8)"))
	require.Eventually(t, func() bool { return ask(replica, "SELECT count(*) FROM kept") == "2" }, soon, 10*time.Millisecond)
	if !suite.More(t, suite.Postgres) { // what follows kills the server
		return
	}
	server.Kill()
	require.Equal(t, "t", ask(replica, "SELECT pg_promote()"))
	require.Empty(t, ask(replica, "INSERT INTO kept VALUES (9)"))
	require.NoError(t, replica.Restart(within(t, soon)))
	require.Equal(t, "3", ask(replica, "SELECT count(*) FROM kept"))
	require.NoError(t, server.Restart(within(t, soon)), "it knows nothing of the other")
}

// TestPostgresClock: those who ask the server for the time hear its own, in all of its processes.
func TestPostgresClock(t *testing.T) {
	suite.Long(t, suite.Postgres, "sets the clock")
	t.Parallel()
	server := embedtest.Postgres(t, embedtest.Clock())
	clockSteps(t, server.StepClock, func() *exec.Cmd {
		return psql(server.Endpoint(), "-c", "SELECT extract(epoch FROM clock_timestamp())")
	})
}

// mariadbTime asks a server of MariaDB or MySQL for its time.
func mariadbTime(endpoint string) *exec.Cmd {
	client := mariadb(endpoint)
	client.Stdin = strings.NewReader("SELECT timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) / 1e6")
	return client
}

// TestMariaDBClock: as that of PostgreSQL.
func TestMariaDBClock(t *testing.T) {
	suite.Long(t, suite.MySQL, "sets the clock")
	t.Parallel()
	server := embedtest.MariaDB(t, embedtest.Clock())
	clockSteps(t, server.StepClock, func() *exec.Cmd { return mariadbTime(server.Endpoint()) })
}

// TestMySQLClock: likewise.
func TestMySQLClock(t *testing.T) {
	suite.Long(t, suite.MySQL, "sets the clock of a server that the system does not have")
	t.Parallel()
	server := embedtest.MySQL(t, embedtest.Clock())
	clockSteps(t, server.StepClock, func() *exec.Cmd { return mariadbTime(server.Endpoint()) })
}

// TestMySQLIsFound by the option before the variable, by its version in the cache or by its folder, and what is not
// there is named.
func TestMySQLIsFound(t *testing.T) {
	suite.Long(t, suite.MySQL, "starts servers that the system does not have")
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	named := cmp.Or(os.Getenv("FARSYNC_MYSQL"), "9.7")
	nowhere, folder := t.TempDir(), named
	if !strings.Contains(named, "/") {
		folder = filepath.Join(cache, "farsync", "servers", "mysql-"+named)
	}
	version := func(options ...embedtest.Option) string {
		client := mariadb(embedtest.MySQL(t, options...).Endpoint())
		client.Stdin = strings.NewReader("SELECT version()")
		out, err := client.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	t.Setenv("FARSYNC_MYSQL", nowhere)
	require.NotContains(t, version(embedtest.Version(named)), "MariaDB")
	require.NotContains(t, version(embedtest.Version(folder)), "MariaDB")
	_, err = embedtest.StartMySQL(within(t, soon), t.TempDir())
	require.ErrorIs(t, err, embedtest.ErrNoMySQL)
	require.ErrorContains(t, err, nowhere)
	_, err = embedtest.StartMySQL(within(t, soon), t.TempDir(), embedtest.Version("5.0"))
	require.ErrorIs(t, err, embedtest.ErrNoMySQL)
	require.ErrorContains(t, err, "mysql-5.0")
}

// clockSteps steps a server's clock. ask makes the client that prints the server's time, in seconds.
func clockSteps(t *testing.T, step func(time.Duration) error, ask func() *exec.Cmd) {
	t.Helper()
	ahead := func() time.Duration {
		out, err := ask().CombinedOutput()
		require.NoError(t, err, string(out))
		seconds, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		require.NoError(t, err)
		return time.Until(time.UnixMicro(int64(seconds * 1e6)))
	}
	require.InDelta(t, 0, ahead().Hours(), 0.1)
	require.NoError(t, step(time.Hour))
	require.InDelta(t, 1, ahead().Hours(), 0.1)
	require.NoError(t, step(-time.Hour))
	require.InDelta(t, -1, ahead().Hours(), 0.1)
}

// TestPgBouncerLendsConnections, fewer than there are clients, and leads to the server that is there.
func TestPgBouncerLendsConnections(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t)
	proxy := embedtest.PgBouncer(t, server, "default_pool_size = 1")
	ask := func(client *exec.Cmd) string {
		out, err := client.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	serving := func() string { return ask(psql(proxy.Endpoint(), "-c", "SELECT pg_backend_pid()")) }
	first := serving()
	require.Equal(t, first, serving())
	if !suite.More(t, suite.Postgres) { // what follows kills the server and the proxy
		return
	}
	server.Kill()
	require.NoError(t, server.Restart(within(t, soon)))
	require.NoError(t, proxy.Restart(within(t, soon)))
	require.NotEqual(t, first, serving())
	proxy.Kill()
	require.Error(t, psql(proxy.Endpoint(), "-c", "SELECT 1").Run())
}
