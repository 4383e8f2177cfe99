package postgrestest_test

import (
	"context"
	"io"
	"net"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

// A called is a function of a config that may block.
type called struct {
	// set has the function call do.
	set func(c *pgxpool.Config, do func())
	// stops is true if no call comes to a connection while the function blocks, or fails.
	stops bool
	// fails has a statement fail, and resets has connections closed, for the function to be called.
	fails, resets bool
}

var functions = map[string]called{
	"PrepareConn": {stops: true, set: func(c *pgxpool.Config, do func()) {
		c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { do(); return true, nil }
	}},
	"BeforeAcquire": {stops: true, set: func(c *pgxpool.Config, do func()) {
		c.BeforeAcquire = func(context.Context, *pgx.Conn) bool { do(); return true } //nolint:staticcheck // programs have it
	}},
	"AfterConnect": {stops: true, set: func(c *pgxpool.Config, do func()) {
		c.AfterConnect = func(context.Context, *pgx.Conn) error { do(); return nil }
	}},
	"AfterRelease": {set: func(c *pgxpool.Config, do func()) {
		c.AfterRelease = func(*pgx.Conn) bool { do(); return true }
	}},
	"BeforeClose": {resets: true, set: func(c *pgxpool.Config, do func()) {
		c.BeforeClose = func(*pgx.Conn) { do() }
	}},
	"ShouldPing": {set: func(c *pgxpool.Config, do func()) {
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { do(); return true }
	}},
	"ConnConfig.DialFunc": {stops: true, set: func(c *pgxpool.Config, do func()) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			do()
			return dial(ctx, network, address)
		}
	}},
	"ConnConfig.LookupFunc": {stops: true, set: func(c *pgxpool.Config, do func()) {
		host := c.ConnConfig.Host
		c.ConnConfig.Host = "database"
		c.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { do(); return []string{host}, nil }
	}},
	"ConnConfig.BuildFrontend": {stops: true, set: func(c *pgxpool.Config, do func()) {
		build := c.ConnConfig.BuildFrontend
		c.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend { do(); return build(r, w) }
	}},
	"ConnConfig.ValidateConnect": {stops: true, set: func(c *pgxpool.Config, do func()) {
		c.ConnConfig.ValidateConnect = func(context.Context, *pgconn.PgConn) error { do(); return nil }
	}},
	"ConnConfig.AfterConnect": {stops: true, set: func(c *pgxpool.Config, do func()) {
		c.ConnConfig.AfterConnect = func(context.Context, *pgconn.PgConn) error { do(); return nil }
	}},
	"ConnConfig.OnNotice": {set: func(c *pgxpool.Config, do func()) {
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { do() }
	}},
	"ConnConfig.OnPgError": {fails: true, set: func(c *pgxpool.Config, do func()) {
		c.ConnConfig.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { do(); return true }
	}},
}

// elsewhere has the functions of a config that have another test, or no part in a Store.
var elsewhere = map[string]string{
	"BeforeConnect":                         "TestBeforeConnectThatBlocks",
	"ConnConfig.Tracer":                     "TestTracerKeepsNobody",
	"ConnConfig.OnNotification":             "not called: the session hears what comes",
	"ConnConfig.BuildContextWatcherHandler": "not called: the driver has its own",
	"ConnConfig.AfterNetConnect":            "of a later pgx: it is called while a connection is made, as ValidateConnect is",
	"ConnConfig.OAuthTokenProvider":         "the same",
}

// TestEveryFunctionIsInTheTable: a function that a later pgx has a config hold is one more that may block.
func TestEveryFunctionIsInTheTable(t *testing.T) {
	var all []string
	for within, of := range map[string]reflect.Type{
		"": reflect.TypeFor[pgxpool.Config](), "ConnConfig.": reflect.TypeFor[pgx.ConnConfig](),
	} {
		for _, field := range reflect.VisibleFields(of) {
			if kind := field.Type.Kind(); field.IsExported() && (kind == reflect.Func || kind == reflect.Interface) {
				all = append(all, within+field.Name)
			}
		}
	}
	for name := range functions {
		require.Contains(t, all, name)
	}
	for _, name := range all {
		_, is := elsewhere[name]
		_, tested := functions[name]
		require.NotEqual(t, is, tested, name)
	}
}

// TestFunctionsKeepNobody: a function of a config that blocks, whatever its ctx says, or panics, keeps no session from being renewed and closed,
// and no call and no service from its end.
func TestFunctionsKeepNobody(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.exec(t, `CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'renewed'; RETURN NEW; END $$`)
	d.exec(t, `CREATE TRIGGER says AFTER UPDATE ON farsync_sessions FOR EACH ROW EXECUTE FUNCTION says()`)
	goes := make(chan struct{})
	t.Cleanup(func() { close(goes) })
	for name, f := range functions {
		for does, what := range map[string]func(){
			"blocks": func() { <-goes },
			"panics": func() { panic("a bug") },
		} {
			t.Run(name+" "+does, func(t *testing.T) {
				t.Parallel()
				d.calls(t, f, what)
			})
		}
	}
}

func (d database) calls(t *testing.T, f called, what func()) {
	var armed, was atomic.Bool
	config, options := d.config(t), d.options(0)
	options.Connections = 2
	f.set(config, func() {
		if armed.Load() {
			was.Store(true)
			what()
		}
	})
	application := "calls." + t.Name()[len("TestFunctionsKeepNobody/"):]
	config.ConnConfig.RuntimeParams["application_name"] = application
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	list := func(most time.Duration) error {
		return locktest.Returns(t, soon, "List", func() error {
			_, err := in.List(within(t, most), "/calls", 1)
			return err
		})
	}
	renew := func() {
		require.NoError(t, locktest.Returns(t, soon, "Renew", func() error { return in.Renew(within(t, soon), nil) }))
	}
	require.NoError(t, list(soon))
	armed.Store(true)
	end := within(t, 2*soon)
	for n := 0; n < 2 || !was.Load(); n++ { // a machine that is busy may not come to it within a tenth of a second
		require.NoError(t, end.Err(), "it is not called")
		renew()
		switch {
		case f.stops: // a connection has to be made for the call, and prepared
			d.exec(t, `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = $1
				AND backend_start > (SELECT min(backend_start) FROM pg_stat_activity WHERE application_name = $1)`, application)
			_ = list(100 * time.Millisecond)
			_ = list(100 * time.Millisecond)
		case f.fails:
			tx := d.begin(t)
			require.NoError(t, postgres.LockTx(within(t, soon), tx, "/calls"+application))
			_ = locktest.Returns(t, soon, "Create", func() error {
				e := driver.Entry{Queue: "/calls" + application, ID: in.NewID("/calls"+application, driver.Read, 1), Kind: driver.Read, Units: 1}
				_, err := in.Create(within(t, 100*time.Millisecond), e, 0)
				return err
			})
			require.NoError(t, tx.Rollback(within(t, soon)))
			require.NoError(t, list(soon))
		case f.resets:
			in.Reset()
			require.NoError(t, list(soon))
		default:
			require.NoError(t, list(soon))
		}
	}
	renew()
	in.Reset() // as when another call is not answered
	renew()
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, locktest.Returns(t, soon, "Close", service.Close))
}

// TestShouldPingThatAsksASlowServer is late for each connection, until the Store closes it. That costs one connection, and no renewal.
func TestShouldPingThatAsksASlowServer(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var late atomic.Int32
	config, options := d.config(t), d.options(0)
	options.Connections = 2
	config.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		if _, err := p.Conn.Exec(context.WithoutCancel(ctx), "SELECT pg_sleep(60)"); err != nil {
			late.Add(1)
		}
		return true
	}
	service, err := postgres.NewService(config, options)
	require.NoError(t, err)
	in, err := service.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, in.Renew(within(t, soon), nil))
		_, err = in.List(within(t, soon), "/slow", 1)
		require.NoError(t, err)
	}
	require.NoError(t, in.Close(within(t, soon)))
	require.NoError(t, service.Close())
	require.Eventually(t, func() bool { return late.Load() == 1 }, soon, time.Millisecond)
}
