//go:build unix

package main

import (
	"os"
	"path/filepath"
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

// TestOneSchemaHoldsTheLock: that of the URL, whatever the variables of libpq say. A run that finds the tables of another
// schema runs COMMAND beside the holder.
func TestOneSchemaHoldsTheLock(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	_, err = conn.Exec(t.Context(), "CREATE SCHEMA other")
	require.NoError(t, err)
	services := filepath.Join(t.TempDir(), "services")
	require.NoError(t, os.WriteFile(services, []byte("[other]\nsearch_path=other\n"), 0o600))
	store := "postgres://postgres@" + server.Endpoint() + "/postgres"
	with := func(store string, environment ...string) *process {
		return startAs(t, store, "env", append(environment, "farsync", "run", "-n", "/x", "--", "echo", "beside")...)
	}
	require.Zero(t, with(store+"?migrate", "PGOPTIONS=-c search_path=other").code(t))
	tables := func() (schemas string) {
		err := conn.QueryRow(t.Context(), "SELECT string_agg(schemaname, ' ' ORDER BY schemaname) FROM pg_tables WHERE tablename = 'farsync_entries'").Scan(&schemas)
		require.NoError(t, err)
		return schemas
	}
	require.Equal(t, "public", tables())
	require.Zero(t, with(store+"?migrate&schema=other").code(t))
	require.Equal(t, "other public", tables())

	holder := start(t, store, "run", "/x", "--", "sh", "-c", "echo held; exec sleep 600")
	until(t, "it is held", func() bool { return holder.out.String() == "held\n" })
	for _, environment := range [][]string{{"PGOPTIONS=-c search_path=other"}, {"PGSERVICE=other", "PGSERVICEFILE=" + services}} {
		beside := with(store, environment...)
		require.Equal(t, codeTaken, beside.code(t), "%s: %s", environment, beside.err.String())
	}
	other := with(store + "?schema=other")
	require.Zero(t, other.code(t), other.err.String())
	none := with(store + "?schema=none")
	require.Equal(t, codeNoPerm, none.code(t), none.err.String())
	require.Contains(t, none.err.String(), "of farsync are not there")
}
