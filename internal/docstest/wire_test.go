//go:build unix

package docstest_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/postgres"
)

// TestSQLClientStandsInTheQueue: what the document says, by psql, takes turns with a Store.
func TestSQLClientStandsInTheQueue(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(within(t, soon), config.ConnConfig))
	store, err := postgres.Open(within(t, soon), config, &postgres.Options{Options: farsync.Options{Holder: "worker"}})
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	// psql returns the rows of the block that begins like that.
	psql := func(name string) []string {
		text := blocks(t, "docs/wire-sql.md", "sql", "-- "+name)[0]
		return strings.Fields(run(t, exec.Command("psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-F,", server.URL()), text))
	}
	mu := farsync.NewMutex(store, "/locks/billing")
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	joined := psql("join")
	require.Len(t, joined, 2)
	require.Regexp(t, `^job-1,exclusive,\d+,job$`, joined[0])
	require.Contains(t, joined[1], lease.ID())
	require.Equal(t, joined, psql("wait"))
	shown := psql("look")
	require.Contains(t, shown[0], ",worker,")
	require.NoError(t, lease.Release())
	require.Equal(t, joined[:1], psql("wait"), "it holds")
	require.Equal(t, []string{"job"}, psql("renew"))
	_, err = mu.TryLock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrLocked)
	list, err := store.Participants(within(t, soon), "/locks/billing")
	require.NoError(t, err)
	require.Contains(t, list[0].String(), "job on db1")
	require.Equal(t, []string{"job"}, psql("leave"))
	next, err := mu.TryLock(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, next.Release())
}
