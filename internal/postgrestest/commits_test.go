package postgrestest_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// TestCommitsThatAreSetLooseUnderARunningStore: a server with synchronous_commit off has confirmed what it loses when
// it crashes. The next renewal warns of it, and so does an Open, by no request more.
func TestCommitsThatAreSetLooseUnderARunningStore(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var log locktest.Log
	options := d.options(time.Hour)
	options.Options = farsync.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	service, err := postgres.NewService(d.config(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	open := func() driver.Session {
		in, err := service.Open(within(t, soon), time.Hour)
		require.NoError(t, err)
		t.Cleanup(in.Drop)
		return in
	}
	// The server reads its settings anew a moment after it was told to, and a session before its next statement.
	renewsUntil := func(in driver.Session, words string) {
		for end := time.Now().Add(soon); !log.Has(words) && time.Now().Before(end); {
			require.NoError(t, in.Renew(within(t, soon), nil))
		}
		require.Contains(t, log.String(), words)
	}
	in := open()
	require.NoError(t, in.Renew(within(t, soon), nil))
	const warning = "level=WARN msg=\"postgresql may lose what it has confirmed, when it crashes or its replica is promoted: two may hold then\" synchronous_commit="
	set(t, d.server, "synchronous_commit = off")
	renewsUntil(in, warning+"off")
	require.NoError(t, in.Renew(within(t, soon), nil))
	set(t, d.server, "synchronous_commit = local")
	renewsUntil(in, "keeps what it confirms again") // there is no replica
	set(t, d.server, "synchronous_standby_names = '*'")
	renewsUntil(in, warning+"local")
	set(t, d.server, "synchronous_standby_names = ''")
	set(t, d.server, "synchronous_commit = remote_apply")
	renewsUntil(in, `"synchronous_commit was"=local`)
	require.Equal(t, 2, strings.Count(log.String(), "level=WARN"), "of two settings, once of each")

	d.exec(t, "ALTER ROLE postgres SET synchronous_commit = off")
	var again locktest.Log
	options.Options = farsync.Options{Logger: slog.New(slog.NewTextHandler(&again, nil))}
	another, err := postgres.NewService(d.config(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, another.Close()) })
	opened, err := another.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(opened.Drop)
	again.Await(t, warning+"off")
}
