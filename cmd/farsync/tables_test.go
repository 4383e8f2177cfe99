//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/mysqlkind"
)

// TestTablesAreMissing: a database without the tables is told in words that help a person who has no Go, and each of
// the ways that they name makes the tables.
func TestTablesAreMissing(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := embedtest.Postgres(t)
		psql := func(t *testing.T, database string) []string {
			program, err := exec.LookPath("psql")
			require.NoError(t, err)
			host, port, err := net.SplitHostPort(server.Endpoint())
			require.NoError(t, err)
			return []string{program, "-h", host, "-p", port, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-q", database}
		}
		for _, database := range []string{"by_schema", "by_url"} {
			create := exec.Command(psql(t, "postgres")[0], append(psql(t, "postgres")[1:], "-c", "CREATE DATABASE "+database)...)
			out, err := create.CombinedOutput()
			require.NoError(t, err, string(out))
		}
		makesTables(t, "postgres", "postgres://postgres@"+server.Endpoint()+"/", psql(t, "by_schema"))
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		server := mysqlkind.Start(t)
		client := func(t *testing.T, database string) []string {
			program, err := exec.LookPath("mariadb")
			require.NoError(t, err)
			host, port, err := net.SplitHostPort(server.Endpoint())
			require.NoError(t, err)
			return []string{program, "--no-defaults", "-h", host, "-P", port, "-u", "root", database}
		}
		for _, database := range []string{"by_schema", "by_url"} {
			create := exec.Command(client(t, "test")[0], append(client(t, "test")[1:], "-e", "CREATE DATABASE "+database)...)
			out, err := create.CombinedOutput()
			require.NoError(t, err, string(out))
		}
		makesTables(t, "mysql", "mysql://root@"+server.Endpoint()+"/", client(t, "by_schema"))
	})
}

// makesTables has the tables made by the client of a database, and by a URL.
func makesTables(t *testing.T, schema, server string, client []string) {
	t.Helper()
	for _, database := range []string{"by_schema", "by_url"} {
		for _, arguments := range [][]string{{"who"}, {"run", "/x", "--", "true"}} {
			p := start(t, server+database, arguments...)
			require.Equal(t, codeNoPerm, p.code(t), p.err.String())
			for _, words := range []string{"of farsync are not there, or of another version", "farsync schema " + schema, "?migrate=1 in the URL"} {
				require.Contains(t, p.err.String(), words)
			}
			require.Contains(t, p.err.String(), "make them with farsync schema "+schema+" | ", "first what a user of the command writes")
		}
	}
	sql := start(t, "", "schema", schema)
	require.Zero(t, sql.code(t))
	for range 2 { // running it again changes nothing
		load := exec.Command(client[0], client[1:]...)
		load.Stdin = strings.NewReader(sql.out.String())
		load.Env = append(os.Environ(), "PGOPTIONS=--client-min-messages=warning")
		out, err := load.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.Equal(t, codeNothing, start(t, server+"by_url?migrate", "who").code(t))
	for _, database := range []string{"by_schema", "by_url"} {
		p := start(t, server+database, "run", "/x", "--", "true")
		require.Zero(t, p.code(t), p.err.String())
	}
}
