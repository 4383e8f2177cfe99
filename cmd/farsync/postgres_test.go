//go:build unix

package main

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestCommandOnPostgres, with the tables that migrate=1 makes.
func TestCommandOnPostgres(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), "CREATE USER farsync PASSWORD 'secret'")
	require.NoError(t, err)
	url := func(user string) string { return "postgres://" + user + "@" + server.Endpoint() + "/postgres" }
	admin, right := url("postgres"), url("farsync:secret")
	for _, row := range []struct {
		store string
		code  int
	}{
		{admin, codeNoPerm}, // no tables
		{right + "?migrate=1", codeNoPerm},
		{admin + "?migrate=1", 0},
		{admin + "?migrate=1", 0}, // changes nothing
		{right, codeNoPerm},
		{admin + "?prefix=/team&ttl=20s", 0},
		{url("other"), codeNoPerm},
		{admin + "?tls=1", codeNoPerm},
		{admin + "/x", codeConfig},
	} {
		p := start(t, row.store, "run", "/x", "--", "true")
		require.Equal(t, row.code, p.code(t), "%s: %s", row.store, p.err.String())
		require.NotContains(t, p.err.String(), "secret")
		if row.store == right || row.store == right+"?migrate=1" {
			require.Contains(t, p.err.String(), "grant the user SELECT, INSERT, UPDATE and DELETE")
		}
	}
	p := start(t, admin, "run", "/held", "--", "farsync", "who", "/held")
	require.Zero(t, p.code(t), p.err.String())
	require.Contains(t, p.out.String(), "/held")
	if suite.More(t, suite.Command) { // kills the server
		server.Kill()
		require.Equal(t, codeUnavailable, start(t, admin, "--dial-timeout", "1", "run", "-n", "/x", "--", "true").code(t))
	}
}
