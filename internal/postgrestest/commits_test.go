package postgrestest_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// logged returns a session in the database, and what its Store logs.
func (d database) logged(t *testing.T) (driver.Session, *locktest.Log) {
	var log locktest.Log
	options := d.options(time.Hour)
	options.Options = farsync.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	service, err := postgres.NewService(d.config(t), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(in.Drop)
	return in, &log
}

// TestCommitsThatAreSetLooseUnderARunningStore: a server with fsync or synchronous_commit off has confirmed what it
// loses when it, or its machine, crashes. The next renewal warns of it, and so does an Open, by no request more.
func TestCommitsThatAreSetLooseUnderARunningStore(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Fsync())
	in, log := d.logged(t)
	// The server reads its settings anew a moment after it was told to, and a session before its next statement.
	renewsUntil := func(words string) {
		for end := time.Now().Add(soon); !log.Has(words) && time.Now().Before(end); {
			require.NoError(t, in.Renew(within(t, soon), nil))
		}
		require.Contains(t, log.String(), words)
	}
	require.NoError(t, in.Renew(within(t, soon), nil))
	set(t, d.server, "synchronous_commit = off")
	renewsUntil(locktest.Loose + `"synchronous_commit = off"`)
	require.NoError(t, in.Renew(within(t, soon), nil))
	set(t, d.server, "fsync = off")
	renewsUntil(locktest.Loose + `"fsync = off, synchronous_commit = off"`)
	set(t, d.server, "synchronous_commit = local")
	renewsUntil(locktest.Loose + `"fsync = off"`) // there is no replica
	set(t, d.server, "fsync = on")
	renewsUntil("keeps what it confirms again")
	set(t, d.server, "synchronous_standby_names = '*'")
	renewsUntil(locktest.Loose + `"synchronous_commit = local"`)
	set(t, d.server, "synchronous_standby_names = ''")
	set(t, d.server, "synchronous_commit = remote_apply")
	renewsUntil(`"settings were"="synchronous_commit = local"`)
	// Lines come in order, so all that were said before are there.
	require.Equal(t, 4, strings.Count(log.String(), "level=WARN"), "of each change, and once")

	d.exec(t, "ALTER ROLE postgres SET synchronous_commit = off")
	_, log = d.logged(t)
	log.Await(t, locktest.Loose+`"synchronous_commit = off"`)
}

// TestTablesThatAreUnlogged: a crash of the server leaves them empty, and a replica does not have them.
func TestTablesThatAreUnlogged(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Fsync())
	in, log := d.logged(t)
	d.exec(t, "ALTER TABLE farsync_registers SET UNLOGGED")
	require.NoError(t, in.Renew(within(t, soon), nil))
	log.Await(t, locktest.Loose+`"farsync_registers is UNLOGGED"`)
	d.exec(t, "ALTER TABLE farsync_registers SET LOGGED")
	require.NoError(t, in.Renew(within(t, soon), nil))
	log.Await(t, "keeps what it confirms again")
	for _, table := range []string{"sessions", "ended", "queues", "entries", "registers"} {
		d.exec(t, "ALTER TABLE farsync_"+table+" SET UNLOGGED")
	}
	_, log = d.logged(t)
	log.Await(t, locktest.Loose+`"farsync_ended is UNLOGGED, farsync_entries is UNLOGGED, farsync_queues is UNLOGGED, `+
		`farsync_registers is UNLOGGED, farsync_sessions is UNLOGGED"`)
}

// TestServersOfTestsAreWarnedOf: those of embedtest do not sync unless they are told to. Nothing but the server says
// so, and a Store believes it.
func TestServersOfTestsAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, log := newDatabase(t).logged(t)
	log.Await(t, locktest.Loose+`"fsync = off"`)
}
