//go:build unix

package embedtest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

// A database is what both servers have.
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
		client func(endpoint string) *exec.Cmd
	}{
		{"PostgreSQL", func(t testing.TB, o ...embedtest.Option) database { return embedtest.Postgres(t, o...) }, psql},
		{"MariaDB", func(t testing.TB, o ...embedtest.Option) database { return embedtest.MariaDB(t, o...) }, mariadb},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := row.start(t, embedtest.Fsync())
			query := func(text string) string {
				client := row.client(server.Endpoint())
				client.Stdin = strings.NewReader(text)
				out, err := client.CombinedOutput()
				require.NoError(t, err, string(out))
				return strings.TrimSpace(string(out))
			}
			require.Empty(t, query("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7);"))
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
		})
	}
}

// PostgreSQL serves each client in a process of its own.
func TestPausedPostgresStopsItsSessions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processes of others cannot be stopped here")
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

func psql(endpoint string) *exec.Cmd {
	return exec.Command("psql", "-qtAX", "postgres://postgres@"+endpoint+"/postgres")
}

func mariadb(endpoint string) *exec.Cmd {
	host, port, _ := strings.Cut(endpoint, ":")
	return exec.Command("mariadb", "--no-defaults", "-BN", "-h"+host, "-P"+port, "-uroot", "test")
}
