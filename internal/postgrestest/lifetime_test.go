package postgrestest_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/postgres"
)

var errHook = errors.New("no connection is to be made")

// TestRenewsThoughNoConnectionCanBeMade in place of the connection that renews the session, once that has been kept for as long as the pool keeps
// any: whichever function of the config blocks or fails. Once the function returns, it is replaced.
func TestRenewsThoughNoConnectionCanBeMade(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	for name, set := range map[string]func(c *pgxpool.Config, do func() error){
		"BeforeConnect": func(c *pgxpool.Config, do func() error) {
			c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return do() }
		},
		"AfterConnect": func(c *pgxpool.Config, do func() error) {
			c.AfterConnect = func(context.Context, *pgx.Conn) error { return do() }
		},
		"PrepareConn": func(c *pgxpool.Config, do func() error) {
			c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { err := do(); return err == nil, err }
		},
		"DialFunc": func(c *pgxpool.Config, do func() error) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				if err := do(); err != nil {
					return nil, err
				}
				return dial(ctx, network, address)
			}
		},
	} {
		for _, does := range []string{"blocks", "fails"} {
			t.Run(name+" "+does, func(t *testing.T) {
				t.Parallel()
				goes := make(chan struct{})
				end := sync.OnceFunc(func() { close(goes) })
				t.Cleanup(end)
				if does == "fails" {
					end()
				}
				var armed, was atomic.Bool
				config, options := d.config(t), d.options(0)
				options.Connections = 2
				config.MaxConnLifetime = time.Millisecond
				application := "lifetime." + name + does
				config.ConnConfig.RuntimeParams["application_name"] = application
				set(config, func() error {
					if !armed.Load() {
						return nil
					}
					was.Store(true)
					<-goes
					return errHook
				})
				service, err := postgres.NewService(config, options)
				require.NoError(t, err)
				in, err := service.Open(within(t, soon), time.Hour)
				require.NoError(t, err)
				pids := func() (list []int32) {
					require.NoError(t, d.admin.QueryRow(within(t, soon),
						"SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE application_name = $1", application).Scan(&list))
					return list
				}
				renew := func() {
					require.NoError(t, locktest.Returns(t, soon, "Renew", func() error { return in.Renew(within(t, soon), nil) }))
				}
				before := pids()
				require.Len(t, before, 1)
				armed.Store(true)
				for range 20 {
					renew()
				}
				require.Eventually(t, was.Load, soon, time.Millisecond)
				require.Contains(t, pids(), before[0])
				armed.Store(false)
				end()
				require.Eventually(t, func() bool {
					renew()
					return !slices.Contains(pids(), before[0])
				}, soon, time.Millisecond)
				require.NoError(t, in.Close(within(t, soon)))
				require.NoError(t, locktest.Returns(t, soon, "Close", service.Close))
			})
		}
	}
}
