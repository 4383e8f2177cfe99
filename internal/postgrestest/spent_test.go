package postgrestest_test

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// TestConnectionThatMayYetBeCancelledServesNoOther: the server takes each request to cancel, and its client does not
// learn of that. What was cancelled has failed; the next statement of the Store, of a call as of a renewal, has another
// connection, and needs no second attempt.
func TestConnectionThatMayYetBeCancelledServesNoOther(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t)
	config.MaxConns = 2 // with one alone a statement would not wait for as long as it takes
	config.ConnConfig.RuntimeParams["application_name"] = "two"
	var requests atomic.Int32
	confirmNone(config.ConnConfig, &requests)
	service, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	create := func(kind driver.Kind) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := in.Create(ctx, driver.Entry{Queue: "/row", ID: in.NewID("/row", kind, 1), Kind: kind, Units: 1}, 0)
			return err
		}
	}
	list := func(ctx context.Context) error {
		_, err := in.List(ctx, "/row", 1)
		return err
	}
	renew := func(ctx context.Context) error { return in.Renew(ctx, nil) }
	const turn, session = "SELECT farsync_turn('/row')", "SELECT FROM farsync_sessions FOR UPDATE"
	for _, row := range []struct {
		locks, words string
		fails, next  func(context.Context) error
	}{
		{turn, "farsync_create", create(driver.Read), list},
		{turn, "farsync_join", create(driver.Exclusive), list}, // with the key, which the connection may have
		{session, "farsync_renew", renew, renew},
	} {
		// The request has a tenth of a second. A machine that is busy may send none in that time, and then the connection is
		// given up, too: all of that is asked then as well, and the row played again.
		for sent := requests.Load(); requests.Load() == sent; {
			require.NoError(t, list(within(t, soon)))
			var before []int32
			require.Eventually(t, func() bool { // what was given up may take a moment to go
				before = d.pids(t)
				return len(before) == 2
			}, soon, time.Millisecond)
			tx := d.begin(t)
			_, err := tx.Exec(within(t, soon), row.locks)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(within(t, 2*soon))
			failed := make(chan error, 1)
			go func() { failed <- row.fails(ctx) }() // joined below
			d.awaitBlocked(t, row.words)
			cancel()
			require.Error(t, locktest.Got(t, failed))
			require.NoError(t, tx.Rollback(within(t, soon)))
			require.NoError(t, row.next(within(t, soon)), row.words)
			require.Eventually(t, func() bool { return !slices.Equal(before, d.pids(t)) }, soon, time.Millisecond)
		}
	}
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// confirmNone has requests to cancel reach the server, and nothing come back.
func confirmNone(config *pgx.ConnConfig, requests *atomic.Int32) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &unconfirmed{Conn: conn, requests: requests, over: make(chan struct{})}, err
	}
}

// unconfirmed is a connection by which a request to cancel is sent, or one that is none of those.
type unconfirmed struct {
	net.Conn

	requests *atomic.Int32
	asks     atomic.Bool
	end      sync.Once
	over     chan struct{} // closed when its client waits no longer
}

func (c *unconfirmed) Write(b []byte) (int, error) {
	if isCancel(b) {
		c.requests.Add(1)
		c.asks.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *unconfirmed) Read(b []byte) (int, error) {
	if c.asks.Load() {
		<-c.over
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(b)
}

func (c *unconfirmed) SetDeadline(at time.Time) error {
	c.end.Do(func() { close(c.over) }) // that of a request is set once, when its time is over
	return c.Conn.SetDeadline(at)
}

// TestStatementEndsWithItsClient though it waits for a lock, and though no request to cancel has reached the server.
func TestStatementEndsWithItsClient(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t)
	config.MaxConns = 2
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return mute{conn}, err
	}
	service, err := postgres.NewService(config, d.options(0))
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	tx := d.begin(t)
	require.NoError(t, postgres.LockTx(within(t, soon), tx, "/row"))
	ctx, cancel := context.WithCancel(within(t, soon))
	failed := make(chan error, 1)
	go func() { // joined below
		_, err := in.Create(ctx, driver.Entry{Queue: "/row", ID: in.NewID("/row", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
		failed <- err
	}()
	d.awaitBlocked(t, "farsync_create")
	cancel()
	require.Error(t, locktest.Got(t, failed))
	require.Eventually(t, func() bool {
		return d.count(t, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND position('farsync_create(' IN query) = 15`) == 0
	}, soon, time.Millisecond)
	require.NoError(t, tx.Rollback(within(t, soon)))
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
}

// mute is a connection that carries no request to cancel.
type mute struct{ net.Conn }

func (c mute) Write(b []byte) (int, error) {
	if isCancel(b) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(b)
}

// isCancel reports whether a message is a request to cancel.
func isCancel(b []byte) bool {
	const size, code = 16, 80877102
	return len(b) == size && binary.BigEndian.Uint32(b[4:]) == code
}
