package postgrestest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// with returns the settings of a client, changed.
func (d database) with(t testing.TB, change func(*pgxpool.Config)) *pgxpool.Config {
	config := d.config(t)
	change(config)
	return config
}

// TestTablesOfAnotherVersionAreNamed, by Open, and Migrate mends them.
func TestTablesOfAnotherVersionAreNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for _, change := range []string{
		"ALTER FUNCTION farsync_begin_5(bigint) RENAME TO farsync_begin_0",
		"ALTER TABLE farsync_sessions RENAME TO farsync_sessions_of_before",
	} {
		d.exec(t, change)
		_, err := postgres.Open(within(t, soon), d.config(t), nil)
		require.ErrorContains(t, err, "in a program by Migrate")
		require.NotErrorIs(t, err, farsync.ErrUnavailable)
		require.NoError(t, postgres.Migrate(within(t, soon), d.config(t).ConnConfig))
		require.NoError(t, lock(t, d.open(t, time.Minute), "/mended").Release())
	}
}

// TestMissingRightIsNamed: a role that may do all but one thing, and one that may do no more than is needed.
func TestMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	tables := []string{
		"farsync_sessions", "farsync_ended", "farsync_queues", "farsync_entries", "farsync_registers", "farsync_watches",
	}
	d.exec(t, "CREATE ROLE least LOGIN")
	d.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+strings.Join(tables, ", ")+" TO least")
	// watched: what waits is readers, not permits.
	use := func(t *testing.T, watched bool) error {
		store, err := postgres.Open(within(t, soon), d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User = "least" }), nil)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = store.Close() })
		if watched {
			return waitAsReaders(t, store)
		}
		// Permits write farsync_registers.
		sem := farsync.NewSemaphore(store, "/permits", 1)
		lease, err := sem.Acquire(within(t, soon), 1)
		if err != nil {
			return err
		}
		got := make(chan error, 1)
		go func() {
			next, err := sem.Acquire(within(t, soon), 1)
			if err == nil {
				err = next.Release()
			}
			got <- err
		}()
		locktest.AwaitQueue(t, store, "/permits", 2)
		if err := lease.Release(); err != nil {
			return err
		}
		return <-got
	}
	require.NoError(t, use(t, false), "all that is needed")
	for _, table := range tables {
		t.Run(table, func(t *testing.T) {
			d.exec(t, "REVOKE INSERT ON "+table+" FROM least")
			defer d.exec(t, "GRANT INSERT ON "+table+" TO least")
			if table == "farsync_ended" {
				// It is needed when a session ends.
				store, err := postgres.Open(within(t, soon), d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User = "least" }), nil)
				require.NoError(t, err)
				require.ErrorContains(t, store.Close(), "permission denied for table "+table)
				return
			}
			if table == "farsync_registers" {
				d.exec(t, "DELETE FROM farsync_registers")
			}
			err := use(t, table == "farsync_watches")
			require.ErrorContains(t, err, "permission denied for table "+table)
			require.NotErrorIs(t, err, farsync.ErrUnavailable)
		})
	}
}

// TestReplicaIsRefused until it is promoted, and so is a server that takes no more clients until one has gone.
func TestReplicaIsRefused(t *testing.T) {
	suite.Long(t, suite.Postgres, "promotes a replica")
	t.Parallel()
	d := newServer(t)
	replica := embedtest.PostgresReplica(t, d.server)
	_, err := postgres.Open(within(t, time.Second), configOf(t, replica.URL()), nil)
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.ErrorContains(t, err, "read-only transaction")
	config, opened := configOf(t, replica.URL()), make(chan error, 1)
	go func() {
		store, err := postgres.Open(within(t, soon), config, &postgres.Options{Options: farsync.Options{Lazy: true}})
		if err == nil {
			_, err = farsync.NewMutex(store, "/promoted").Lock(within(t, soon))
			_ = store.Close()
		}
		opened <- err
	}()
	require.True(t, on[bool](t, replica, "SELECT pg_promote()"))
	require.NoError(t, <-opened)
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("max_connections = 12"))
	store := d.open(t, time.Minute)
	lease := lock(t, store, "/crowded")
	fill, empty := d.filled(t)
	require.ErrorContains(t, fill(), "too many clients")
	another, err := postgres.Open(within(t, 10*time.Second), d.config(t), nil)
	for err == nil { // a process of the server that was still ending has made room
		require.NoError(t, another.Close())
		require.ErrorContains(t, fill(), "too many clients")
		another, err = postgres.Open(within(t, 10*time.Second), d.config(t), nil)
	}
	require.ErrorIs(t, err, farsync.ErrUnavailable)
	require.ErrorContains(t, err, "too many clients")
	require.NoError(t, lease.Err(), "what is connected goes on")
	require.NoError(t, lock(t, store, "/crowded-too").Release())
	got := make(chan error, 1)
	go func() { // it cannot listen, and tries again
		next, err := farsync.NewMutex(store, "/crowded").Lock(within(t, soon))
		if err == nil {
			err = next.Release()
		}
		got <- err
	}()
	locktest.AwaitQueue(t, store, "/crowded", 2)
	empty()
	require.NoError(t, lease.Release())
	require.NoError(t, <-got)
}

// TestFullDisk: what is held stays, what asks waits until there is room, and is told why if it gives up.
func TestFullDisk(t *testing.T) {
	suite.Long(t, suite.Postgres, "fills the server's disk beside a TTL of 2 s")
	t.Parallel()
	if os.Getuid() != 0 {
		suite.NotHere(t, "root, to mount a small disk")
	}
	d := database{server: embedtest.Postgres(t)}
	d.url = d.server.URL()
	disk := filepath.Join(filepath.Dir(d.server.Log()), "small")
	require.NoError(t, os.Mkdir(disk, 0o755))
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", disk).CombinedOutput()
	require.NoError(t, err, string(out))
	likeFolder(t, disk)
	t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
	admin, err := pgxpool.NewWithConfig(t.Context(), d.config(t))
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	d.admin = admin
	d.exec(t, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	d.exec(t, "ALTER DATABASE postgres SET default_tablespace = small")
	require.NoError(t, postgres.Migrate(within(t, soon), d.config(t).ConnConfig))
	store := d.open(t, 2*time.Second)
	lease := lock(t, store, "/full")
	conn, err := pgx.ConnectConfig(within(t, soon), d.config(t).ConnConfig) // with the new default
	require.NoError(t, err)
	defer conn.Close(within(t, soon))
	_, err = conn.Exec(within(t, soon), "CREATE TABLE filler (text text)")
	require.NoError(t, err)
	for err == nil {
		_, err = conn.Exec(within(t, soon), "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 8)")
	}
	require.ErrorContains(t, err, "No space left on device")
	// The pages that there are have room for some.
	long := ""
	for i, err := 0, error(nil); err == nil; i++ {
		require.Less(t, i, 200)
		long = fmt.Sprint("/full", strings.Repeat("/"+strings.Repeat("x", 120), 4), i)
		if _, err = farsync.NewMutex(store, long).Lock(within(t, time.Second)); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "No space left on device")
		}
	}
	_, err = conn.Exec(within(t, soon), "DROP TABLE filler")
	require.NoError(t, err)
	require.NoError(t, lock(t, store, long).Release())
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestDeadlockIsTriedAgain: a transaction of a person's locks what a Store needs, in another order. Where the attempt that waits for the
// transaction is given up before the transaction waits for it, there is no deadlock, and another transaction does the same.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newServer(t, embedtest.Setting("deadlock_timeout = 50ms")) // before an attempt is given up
	store := d.open(t, time.Minute)
	for log, ctx := "", within(t, soon); !strings.Contains(log, "deadlock detected"); {
		require.NoError(t, ctx.Err(), log)
		d.deadlock(t, store)
		text, err := os.ReadFile(d.server.Log())
		require.NoError(t, err)
		log = string(text)
	}
}

// deadlock has a transaction and a Lock wait for each other, if the transaction comes in time, and the Lock succeed.
func (d database) deadlock(t *testing.T, store *farsync.Store) {
	tx := d.begin(t)
	_, err := tx.Exec(within(t, soon), "SELECT 1 FROM farsync_sessions FOR UPDATE")
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		lease, err := farsync.NewMutex(store, "/deadlock").Lock(within(t, soon))
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	// It has the turn of the queue, and waits for its session.
	require.Eventually(t, func() bool {
		return on[bool](t, d.server, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%farsync_join%')")
	}, soon, time.Millisecond)
	if err := postgres.LockTx(within(t, soon), tx, "/deadlock"); err != nil {
		require.ErrorContains(t, err, "deadlock detected", "it was this that the server chose")
	}
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, <-got)
}

// hba has the server ask clients for what these lines say, before those that let everything in.
func (d database) hba(t *testing.T, lines ...string) {
	file := on[string](t, d.server, "SHOW hba_file")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"+string(text)), 0o600))
	require.True(t, on[bool](t, d.server, "SELECT pg_reload_conf()"))
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	d.exec(t, "CREATE ROLE app LOGIN SUPERUSER PASSWORD 'right'")
	d.hba(t, "host all app all scram-sha-256")
	as := func(password string) *pgxpool.Config {
		return d.with(t, func(c *pgxpool.Config) { c.ConnConfig.User, c.ConnConfig.Password = "app", password })
	}
	_, err := postgres.Open(within(t, soon), as("wrong"), nil)
	require.ErrorContains(t, err, "password authentication failed")
	require.NotContains(t, err.Error(), "wrong")
	require.NotErrorIs(t, err, farsync.ErrUnavailable)
	store, err := postgres.Open(within(t, soon), as("right"), nil)
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

// TestTLS: each side proves who it is, or is refused in words, and nothing hangs. What listens does so over TLS, too.
func TestTLS(t *testing.T) {
	t.Parallel()
	d := newServer(t)
	authority, other := locktest.NewAuthority(t), locktest.NewAuthority(t)
	data := on[string](t, d.server, "SHOW data_directory")
	d.write(t, data, authority, authority.Issue(t, "localhost", time.Hour))
	set(t, d.server, "ssl_ca_file = 'authority.crt'")
	set(t, d.server, "ssl = on")
	for _, role := range []string{"secret", "proven"} {
		d.exec(t, "CREATE ROLE "+role+" LOGIN SUPERUSER")
	}
	d.hba(t, "hostnossl all secret all reject", "hostssl all proven all trust clientcert=verify-ca", "host all proven all reject")
	plain := embedtest.Postgres(t)
	config := func(c *tls.Config) *tls.Config {
		c.ServerName = "localhost"
		return c
	}
	trust := authority.Pool()
	for _, row := range []struct {
		name, user string
		url        string
		tls        *tls.Config
		words      string // of the error; none: it works
	}{
		{"a server that is trusted", "secret", d.url, config(&tls.Config{RootCAs: trust}), ""},
		{"a client that is trusted", "proven", d.url, config(&tls.Config{RootCAs: trust, Certificates: []tls.Certificate{authority.Issue(t, "me", time.Hour)}}), ""},
		{"a server that is not trusted", "secret", d.url, config(&tls.Config{}), "x509: "},
		{"a server by another name", "secret", d.url, &tls.Config{RootCAs: trust, ServerName: "elsewhere"}, "not elsewhere"},
		{"a client without certificate", "proven", d.url, config(&tls.Config{RootCAs: trust}), "requires a valid client certificate"},
		{"a client of an unknown authority", "proven", d.url, config(&tls.Config{RootCAs: trust, Certificates: []tls.Certificate{other.Issue(t, "me", time.Hour)}}), "unknown certificate authority|reset by peer|broken pipe"},
		{"a client without TLS", "secret", d.url, nil, "no encryption"},
		{"a server without TLS", "postgres", plain.URL(), config(&tls.Config{RootCAs: trust}), "server refused TLS connection"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := configOf(t, row.url)
			c.ConnConfig.User, c.ConnConfig.TLSConfig, c.ConnConfig.Fallbacks = row.user, row.tls, nil
			ctx := within(t, soon)
			if strings.Contains(row.words, "authority") {
				// The server says so as it closes the connection with what it has not read. That resets it, and what it has said may be lost.
				ctx = within(t, 10*time.Second)
			}
			store, err := postgres.Open(ctx, c, nil)
			if row.words != "" {
				require.Error(t, err)
				require.Regexp(t, row.words, err.Error())
				return
			}
			require.NoError(t, err)
			lease := lock(t, store, "/tls")
			next := locktest.LockBehind(t, store, "/tls")
			locktest.AwaitQueue(t, store, "/tls", 2)
			require.NoError(t, lease.Release())
			require.NoError(t, locktest.Got(t, next).Release())
			require.NoError(t, store.Close())
		})
	}
}

// write puts an authority, and a certificate of it with its key, where the server may read them.
func (d database) write(t *testing.T, dir string, authority locktest.Authority, pair tls.Certificate) {
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	for file, text := range map[string][]byte{
		"authority.crt": authority.Text(),
		"server.crt":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"server.key":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path, text, 0o600))
		likeFolder(t, path)
	}
}

// likeFolder gives a file to the user that its folder, or the folder above it, belongs to: the server's.
func likeFolder(t *testing.T, path string) {
	if os.Getuid() == 0 {
		out, err := exec.CommandContext(t.Context(), "chown", "--reference="+filepath.Dir(path), path).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// TestSessionWhoseNameIsTooLong: a session of another program has an ID that is too long for a channel. It cannot be told anything.
// The others release, lock and renew all the same.
func TestSessionWhoseNameIsTooLong(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, 10*time.Second)
	lease := locktest.Lock(t, store, "/long")
	e := d.foreign(t, "/long", strings.Repeat("x", 56))
	require.NoError(t, lease.Release())
	behind := locktest.LockBehind(t, store, "/long")
	locktest.AwaitQueue(t, store, "/long", 2)
	d.expire(t, e.ID)
	require.NoError(t, (<-behind).Release())
}

// waitAsReaders has two readers wait for a writer. The one that is not next behind it writes farsync_watches.
func waitAsReaders(t *testing.T, store *farsync.Store) error {
	held, err := farsync.NewRWMutex(store, "/readers").Lock(within(t, soon))
	require.NoError(t, err)
	got := make(chan error, 2)
	for range 2 {
		go func() { // joined below
			lease, err := farsync.NewRWMutex(store, "/readers").RLock(locktest.Apart(within(t, soon)))
			if err == nil {
				err = lease.Release()
			}
			got <- err
		}()
	}
	err = <-got
	require.NoError(t, held.Release())
	require.NoError(t, <-got)
	return err
}
