//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/internal/suite"
)

// TestCommandOnMySQL, with the tables that the mysql client makes of the file.
func TestCommandOnMySQL(t *testing.T) {
	t.Parallel()
	const password = "correct/horse?:@"
	server := mysqlkind.Start(t)
	host, port, _ := strings.Cut(server.Endpoint(), ":")
	query := func(text string) {
		client := exec.Command("mariadb", "--no-defaults", "-BN", "-h"+host, "-P"+port, "-uroot", "test")
		client.Stdin = strings.NewReader(text)
		out, err := client.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	schema, err := os.ReadFile("../../mysql/schema.sql")
	require.NoError(t, err)
	url := func(user string) string { return "mysql://" + user + server.Endpoint() + "/test" }
	require.Equal(t, codeNoPerm, start(t, url("root@"), "run", "/x", "--", "true").code(t), "no tables")
	query(string(schema))
	query(string(schema)) // changes nothing
	query("CREATE USER farsync IDENTIFIED BY '" + password + "'; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON test.* TO farsync")
	right := url("farsync:" + strings.NewReplacer("/", "%2F", "?", "%3F", "@", "%40").Replace(password) + "@")
	for store, code := range map[string]int{
		right: 0, right + "?prefix=/team&ttl=20s": 0, url("root@"): 0,
		url("farsync:wrong@"): codeNoPerm, right + "?tls=1": codeNoPerm, right + "/x": codeConfig,
	} {
		p := start(t, store, "run", "/x", "--", "true")
		require.Equal(t, code, p.code(t), "%s: %s", store, p.err.String())
		require.NotContains(t, p.err.String(), password)
	}
	p := start(t, right, "run", "/held", "--", "farsync", "who", "/held")
	require.Zero(t, p.code(t), p.err.String())
	require.Contains(t, p.out.String(), "/held")
	if suite.More(t, suite.Command) { // kills the server
		server.Kill()
		require.Equal(t, codeUnavailable, start(t, right, "--dial-timeout", "1", "run", "-n", "/x", "--", "true").code(t))
	}
}
