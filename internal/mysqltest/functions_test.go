package mysqltest_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/mysql"
)

// functions are the functions that a program can have called for each connection that is made: each calls do, and has a TLS configuration
// like trusted.
var functions = map[string]func(t *testing.T, to *client.Config, o *mysql.Options, trusted *tls.Config, do func()){
	"BeforeConnect": func(_ *testing.T, _ *client.Config, o *mysql.Options, _ *tls.Config, do func()) {
		o.BeforeConnect = func(context.Context, *client.Config) error { do(); return nil }
	},
	"TLS by BeforeConnect": func(_ *testing.T, _ *client.Config, o *mysql.Options, trusted *tls.Config, do func()) {
		o.BeforeConnect = func(_ context.Context, c *client.Config) error {
			c.TLS = calling(trusted, do)
			return nil
		}
	},
	"TLS of the DSN": func(t *testing.T, to *client.Config, _ *mysql.Options, trusted *tls.Config, do func()) {
		to.TLSConfig = rand.Text()
		require.NoError(t, client.RegisterTLSConfig(to.TLSConfig, calling(trusted, do)))
		t.Cleanup(func() { client.DeregisterTLSConfig(to.TLSConfig) })
	},
	"dialer of the DSN": func(t *testing.T, to *client.Config, _ *mysql.Options, _ *tls.Config, do func()) {
		to.Net = rand.Text()
		client.RegisterDialContext(to.Net, func(ctx context.Context, address string) (net.Conn, error) {
			do()
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		})
		t.Cleanup(func() { client.DeregisterDialContext(to.Net) })
	},
}

// calling returns a TLS configuration like another, which calls do in each handshake.
func calling(like *tls.Config, do func()) *tls.Config {
	config := like.Clone()
	config.VerifyConnection = func(tls.ConnectionState) error { do(); return nil }
	return config
}

// TestHandshakeThatPanicsLeavesNoConnection: a renewal makes an attempt a second, and would use up the files that a process may have.
func TestHandshakeThatPanicsLeavesNoConnection(t *testing.T) {
	t.Parallel()
	authority := locktest.NewAuthority(t)
	to, err := client.ParseDSN(databaseOf(t, secured(t, authority)).dsn())
	require.NoError(t, err)
	var open atomic.Int64
	to.Net = rand.Text()
	client.RegisterDialContext(to.Net, func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		open.Add(1)
		return &counted{Conn: conn, open: &open}, err
	})
	t.Cleanup(func() { client.DeregisterDialContext(to.Net) })
	service, err := mysql.NewService(to.FormatDSN(), &mysql.Options{BeforeConnect: func(_ context.Context, c *client.Config) error {
		c.TLS = calling(&tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}, func() { panic("a bug") })
		return nil
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	for range 3 {
		_, err = service.Open(within(t, soon), time.Hour)
		require.ErrorContains(t, err, "VerifyConnection has panicked: a bug")
	}
	require.Zero(t, open.Load())
}

// A counted connection is one of the open connections until it is closed.
type counted struct {
	net.Conn
	open   *atomic.Int64
	closes sync.Once
}

func (c *counted) Close() error {
	c.closes.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestFunctionsKeepNobody: a function of the DSN or of the options that blocks, panics, ends its goroutine or calls the Store is as a server that
// makes no connection: see RunFunction.
func TestFunctionsKeepNobody(t *testing.T) {
	t.Parallel()
	authority := locktest.NewAuthority(t)
	server := secured(t, authority, embedtest.Setting("max_connections = 400"))
	trusted := &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}
	other := databaseOf(t, server).open(t, nil)
	for name, set := range functions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.RunFunction(t, locktest.Function{
				Path: "/functions", Other: other,
				Service: func(t *testing.T, do func()) driver.Service {
					to, err := client.ParseDSN(databaseOf(t, server).dsn())
					require.NoError(t, err)
					var options mysql.Options
					set(t, to, &options, trusted, do)
					service, err := mysql.NewService(to.FormatDSN(), &options)
					require.NoError(t, err)
					return service
				},
			})
		})
	}
}
