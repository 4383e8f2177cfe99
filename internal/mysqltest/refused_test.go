package mysqltest_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
)

// TestTablesOfAnotherVersionAreNamed, by Open, and Migrate mends them.
func TestTablesOfAnotherVersionAreNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for _, change := range []string{"DROP PROCEDURE farsync_primary", "DROP PROCEDURE farsync_open_9", "DROP TABLE farsync_entries, farsync_sessions"} {
		d.exec(t, change)
		_, err := mysql.Open(within(t, soon), d.dsn(), nil)
		require.ErrorContains(t, err, "in a program by Migrate", change)
		require.NotErrorIs(t, err, farsync.ErrUnavailable)
		require.NoError(t, mysql.Migrate(within(t, soon), d.dsn()))
		require.NoError(t, lock(t, d.open(t, nil), "/mended").Release())
	}
}

// TestTLS: each side proves who it is, or is refused in words, and nothing hangs.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority, other := locktest.NewAuthority(t), locktest.NewAuthority(t)
	d := databaseOf(t, secured(t, authority))
	for name, must := range map[string]string{"secret": "REQUIRE SSL", "proven": "REQUIRE X509"} {
		d.exec(t, "CREATE USER "+name+" "+must)
		d.exec(t, "GRANT ALL ON *.* TO "+name)
	}
	plain := newDatabase(t)
	plain.exec(t, "CREATE USER IF NOT EXISTS secret")
	trust := authority.Pool()
	mine, theirs := authority.Issue(t, "me", time.Hour), other.Issue(t, "me", time.Hour)
	for _, row := range []struct {
		name, user string
		at         database
		tls        *tls.Config
		says       string // as an expression; none: it works
		silent     bool   // the client cannot tell a refusal from a failure, and tries until its ctx ends
	}{
		{"a server that is trusted", "secret", d, &tls.Config{RootCAs: trust, ServerName: "localhost"}, "", false},
		{"a client that is trusted", "proven", d, &tls.Config{RootCAs: trust, ServerName: "localhost", Certificates: []tls.Certificate{mine}}, "", false},
		{"a server that is not trusted", "secret", d, &tls.Config{ServerName: "localhost"}, "x509: ", false},
		{"a server by another name", "secret", d, &tls.Config{RootCAs: trust, ServerName: "elsewhere"}, "not elsewhere", false},
		{"a client without certificate", "proven", d, &tls.Config{RootCAs: trust, ServerName: "localhost"}, "Access denied", false},
		{"a client of an unknown authority", "proven", d, &tls.Config{
			RootCAs: trust, ServerName: "localhost", Certificates: []tls.Certificate{theirs},
		}, "unknown certificate authority|bad connection|invalid connection|reset by peer|broken pipe|EOF", true},
		{"a client without TLS", "secret", d, nil, "Access denied", false},
		{"a server without TLS", "secret", plain, &tls.Config{RootCAs: trust, ServerName: "localhost"}, "server does not support TLS", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dsn := row.user + "@tcp(" + row.at.server.Endpoint() + ")/" + row.at.name
			if row.tls != nil {
				name := rand.Text()
				require.NoError(t, client.RegisterTLSConfig(name, row.tls))
				t.Cleanup(func() { client.DeregisterTLSConfig(name) })
				dsn += "?tls=" + name
			}
			ctx := within(t, soon)
			if row.silent {
				ctx = within(t, 10*time.Second)
			}
			store, err := mysql.Open(ctx, dsn, nil)
			if row.says != "" {
				require.ErrorContains(t, err, "farsync: open mysql: ")
				require.Regexp(t, row.says, err.Error())
				require.Equal(t, row.silent, errors.Is(err, farsync.ErrUnavailable), err)
				return
			}
			require.NoError(t, err)
			require.NoError(t, lock(t, store, "/tls").Release())
			require.NoError(t, store.Close())
		})
	}
}

// secured returns a server of its own that proves that it is localhost, and trusts clients of the same authority.
func secured(t *testing.T, authority locktest.Authority, settings ...embedtest.Option) server {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711)) //nolint:gosec // the server runs as another user
	pair := authority.Issue(t, "localhost", time.Hour)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	for setting, text := range map[string][]byte{
		"ssl-ca":   authority.Text(),
		"ssl-cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"ssl-key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		file := filepath.Join(dir, setting)
		require.NoError(t, os.WriteFile(file, text, 0o644)) //nolint:gosec // of this test alone
		settings = append(settings, embedtest.Setting(setting+" = "+file))
	}
	return newServer(t, settings...)
}

// TestConnectionsThatBreak, over and over, in the middle of requests: what was asked for is done once in the end, and no two hold.
func TestConnectionsThatBreak(t *testing.T) {
	suite.Long(t, suite.MySQL, "breaks connections over and over while clients race")
	t.Parallel()
	d := newDatabase(t)
	proxy := embedtest.NewProxy(t, d.server.Endpoint())
	section := locktest.NewSection(t, 1)
	var all sync.WaitGroup
	for range 4 {
		store := openAt(t, d.through(proxy.Addr()), ttl(20*time.Second))
		all.Go(func() {
			for range 10 {
				lease, err := farsync.NewMutex(store, "/breaks").Lock(within(t, soon))
				if err != nil {
					t.Error(err)
					return
				}
				section.Visit(t.Context(), lease, 1)
				if err := lease.Release(); err != nil && !errors.Is(err, farsync.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	// The more often they break for nothing the longer they last: on a machine that is busy a request may take longer than any time
	// that is chosen beforehand, and would never be answered.
	const shortest = 10 * time.Millisecond
	broken, seen, lasts := 0, 0, shortest
	for ticker := time.NewTicker(shortest); ; broken++ {
		select {
		case <-ticker.C:
			proxy.Reset()
			lasts += lasts / 16
			if visits, _ := section.Visits(); visits > seen {
				seen, lasts = visits, shortest
			}
			ticker.Reset(lasts)
			continue
		case <-done:
		}
		ticker.Stop()
		break
	}
	visits, _ := section.Visits()
	t.Logf("%d visits, and the connections were broken %d times", visits, broken)
	require.Equal(t, 40, visits)
	require.Eventually(t, func() bool { return ask[int](t, d, "SELECT COUNT(*) FROM farsync_entries") == 0 }, soon, 10*time.Millisecond)
}

// TestOutcomesOfErrors: what passes by itself is tried again, and what may have been committed is looked for. A server of clusters is not
// there to say these, so a procedure does.
func TestOutcomesOfErrors(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	service, err := mysql.NewService(d.dsn(), nil)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() {
		in.Drop()
		require.NoError(t, service.Close())
	})
	for _, row := range []struct {
		number int
		says   string
		is     driver.Outcome
	}{
		{1205, "a row was locked for too long", driver.NotDone},
		{1213, "a deadlock", driver.NotDone},
		{1206, "the table of locks is full", driver.NotDone},
		{1135, "no thread can be made", driver.NotDone},
		{1047, "a node of a Galera cluster is not ready", driver.NotDone},
		{3032, "the server is in offline mode", driver.NotDone},
		{3101, "Group Replication has rolled back at the commit", driver.NotDone},
		{1180, "the commit has failed", driver.Unknown},
		{1927, "the connection was killed", driver.Unknown},
		{3169, "the session was killed", driver.Unknown},
		{1158, "the server could not read", driver.Unknown},
		{1161, "the server could not write in time", driver.Unknown},
		{3100, "Group Replication could not be asked", driver.Unknown},
		{2006, "a proxy has no server any more", driver.Unknown},
		{2013, "a proxy has lost its server", driver.Unknown},
		{9001, "a proxy reaches no server", driver.Unknown},
		{1037, "there is no memory", driver.NotDone},
		{1041, "there is no memory either", driver.NotDone},
		{1129, "the host is blocked", driver.NotDone},
		{1412, "the table was changed", driver.NotDone},
		{1615, "the statement has to be prepared again", driver.NotDone},
		{4031, "the connection was closed, for it said nothing", driver.NotDone},
		{1146, "there is no such table", driver.Refused},
		{1142, "no right to the table", driver.Refused},
		{45000, "another", driver.Refused},
	} {
		d.exec(t, "DROP PROCEDURE farsync_heard")
		d.exec(t, fmt.Sprintf(`CREATE PROCEDURE farsync_heard(of_id VARCHAR(255))
			BEGIN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = '%s'; END`, row.number, row.says))
		_, err := in.Heard(within(t, soon), driver.Entry{ID: "id"})
		require.ErrorContains(t, err, row.says)
		assert.Equal(t, row.is, service.Outcome(err), row.says)
	}
}
