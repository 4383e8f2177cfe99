package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// earlierTurn is how a turn was taken before the number had the table in it.
const earlierTurn = `WITH line AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended($1, 7236548105)))
	INSERT INTO farsync_queues AS q (path, last) SELECT $1, farsync_now() FROM line
	ON CONFLICT (path) DO UPDATE SET last = greatest(q.last + 1, excluded.last) RETURNING last`

// TestNumbersThatOthersKeepStopNobody: a role without any right has taken every number that Stores and Migrate wait at,
// of this version and of the one before. It is behind the key of each holder, too, and keeps that.
func TestNumbersThatOthersKeepStopNobody(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE ROLE stranger LOGIN")
	stranger := func() *pgx.Conn {
		conn, err := pgx.ConnectConfig(within(t, soon), d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User = "stranger" }).ConnConfig)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.PgConn().Conn().Close() })
		return conn
	}
	keeps := stranger()
	_, err := keeps.Exec(within(t, soon), "SELECT * FROM farsync_queues")
	require.ErrorContains(t, err, "permission denied")
	const known = "/known"
	require.NoError(t, lock(t, d.open(t, time.Hour), known).Release()) // the row of a queue stays
	for _, path := range []string{known, "/new", "/units", "/read", ""} {
		_, err := keeps.Exec(within(t, soon), `SELECT pg_advisory_lock(hashtextextended($1, 7236548105)),
			pg_advisory_lock(hashtextextended($1, 7236548105 # (c.oid::bigint << 32)))
			FROM pg_class c WHERE c.relname = 'farsync_queues'`, path)
		require.NoError(t, err)
	}
	_, err = keeps.Exec(within(t, soon), "SELECT pg_advisory_lock(7236548104), pg_advisory_lock(7236548106)")
	require.NoError(t, err)

	var all errgroup.Group
	store := d.open(t, time.Hour)
	serves := func(acquire func(context.Context) (*farsync.Lease, error)) {
		all.Go(func() error {
			lease, err := acquire(within(t, soon/2))
			if err == nil {
				err = lease.Release()
			}
			return err
		})
	}
	serves(farsync.NewMutex(store, known).TryLock)
	serves(farsync.NewMutex(store, "/new").Lock)
	serves(farsync.NewRWMutex(store, "/read").RLock)
	serves(func(ctx context.Context) (*farsync.Lease, error) {
		return farsync.NewSemaphore(store, "/units", 2).Acquire(ctx, 1)
	})
	all.Go(func() error {
		_, err := d.admin.Exec(within(t, soon/2), "SELECT farsync_bury(1000)")
		return err
	})
	all.Go(func() error { return postgres.Migrate(within(t, soon/2), d.config(t).ConnConfig) })
	all.Go(func() error {
		tx := d.begin(t)
		if err := postgres.LockTx(within(t, soon/2), tx, "/free"); err != nil {
			return err
		}
		return tx.Commit(within(t, soon))
	})
	require.NoError(t, all.Wait())

	holder := lock(t, d.open(t, time.Hour), "/key")
	next := locktest.LockBehind(t, store, "/key")
	locktest.AwaitQueue(t, store, "/key", 2)
	key := d.key(t, holder.ID())
	stole := make(chan error, 1)
	behind := stranger()
	go func() { // joined below
		_, err := behind.Exec(within(t, soon), "SELECT pg_advisory_lock($1)", key)
		stole <- err
	}()
	d.awaitBlocked(t, "pg_advisory_lock($1)")
	require.NoError(t, holder.Release())
	require.NoError(t, locktest.Got(t, next).Release())
	require.NoError(t, locktest.Got(t, stole), "it has the key, and keeps it")
}

func (d database) key(t testing.TB, id string) (number int64) {
	require.NoError(t, d.admin.QueryRow(within(t, soon), "SELECT farsync_key($1)", id).Scan(&number))
	return number
}

// TestSchemasHaveNumbersOfTheirOwn: a transaction that has locked a path in one schema is not even waited for in
// another.
func TestSchemasHaveNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "CREATE SCHEMA other")
	other := d.with(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["search_path"] = "other" })
	require.NoError(t, postgres.Migrate(within(t, soon), other.ConnConfig))
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/same"))
	there, err := pgx.ConnectConfig(within(t, soon), other.ConnConfig)
	require.NoError(t, err)
	t.Cleanup(func() { _ = there.PgConn().Conn().Close() })
	for _, same := range []struct {
		by   *pgx.Conn
		free bool
	}{{there, true}, {d.connection(t), false}} {
		var free bool
		require.NoError(t, same.by.QueryRow(within(t, soon), "SELECT pg_try_advisory_xact_lock(farsync_line('/same'))").Scan(&free))
		require.Equal(t, same.free, free)
	}
	store, err := postgres.Open(within(t, soon), other, d.options(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	require.NoError(t, lock(t, store, "/same").Release())
}

// TestTurnsOfAnEarlierVersionAreTurns: a transaction that was under way when the tables were brought up to date has the
// number of before, and may be a long one. It has the row of the queue as well, where those of both versions take
// turns.
func TestTurnsOfAnEarlierVersionAreTurns(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, "INSERT INTO farsync_sessions VALUES ('job', farsync_begin_5(3600000000), 3600000000)")
	earlier := func(path string) (pgx.Tx, int64) {
		var last int64
		tx := d.begin(t)
		require.NoError(t, tx.QueryRow(within(t, soon), earlierTurn, path).Scan(&last))
		return tx, last
	}
	store := d.open(t, time.Hour)
	for _, path := range []string{"/new", "/known"} {
		if path == "/known" {
			require.NoError(t, lock(t, store, path).Release())
		}
		tx, turn := earlier(path)
		failed := make(chan error, 1)
		go func() { // joined below
			_, err := farsync.NewMutex(store, path).TryLock(within(t, soon))
			failed <- err
		}()
		// A TryLock reads first and is refused; what has found nothing joins, and waits for its turn.
		d.awaitBlocked(t, "farsync_join")
		_, err := tx.Exec(within(t, soon),
			"INSERT INTO farsync_entries (id, queue, session, kind, revision) VALUES ($1, $1, 'job', 'exclusive', $2)", path, turn)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(within(t, soon)))
		require.ErrorIs(t, locktest.Got(t, failed), farsync.ErrLocked)
		d.exec(t, "DELETE FROM farsync_entries WHERE id = $1", path)

		recent := d.begin(t)
		require.NoError(t, postgres.LockTx(within(t, soon), recent, path))
		took := make(chan int64, 1)
		go func() { // joined below
			tx, last := earlier(path)
			_ = tx.Rollback(within(t, soon))
			took <- last
		}()
		d.awaitBlocked(t, "MATERIALIZED")
		var last int64
		require.NoError(t, recent.QueryRow(within(t, soon), "SELECT last FROM farsync_queues WHERE path = $1", path).Scan(&last))
		require.NoError(t, recent.Commit(within(t, soon)))
		require.Greater(t, locktest.Got(t, took), last)
	}
}

// TestDeadlockOfPathsIsTold: of two transactions that lock two paths in other orders one is ended by the server, though
// neither waits in line for long.
func TestDeadlockOfPathsIsTold(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	paths := []string{"/a", "/b"}
	d.exec(t, "SELECT farsync_turn($1), farsync_turn($2)", paths[0], paths[1]) // whose rows others would not wait in line for
	txs := []pgx.Tx{d.begin(t), d.begin(t)}
	for i, tx := range txs {
		_, err := tx.Exec(within(t, soon), "SET LOCAL deadlock_timeout = '400ms'")
		require.NoError(t, err)
		require.NoError(t, postgres.LockTx(within(t, soon), tx, paths[i]))
	}
	ended := make(chan error, len(txs))
	for i, tx := range txs {
		go func() { // joined below
			ended <- postgres.LockTx(within(t, soon/2), tx, paths[1-i])
		}()
	}
	var told []error
	for range txs {
		if err := locktest.Got(t, ended); err != nil {
			told = append(told, err)
		}
	}
	require.Len(t, told, 1)
	require.ErrorContains(t, told[0], "deadlock detected")
}
