package postgrestest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/postgres"
)

// TestWaitersBehindAGuardLeaveConnectionsForOthers: a session that ends has locked the entries that four waiters stand
// behind, and waits itself for a guard of the fifth. There are as many waiters as their session has connections for
// calls, and each has been seen to wait at the server. The session reads and writes where nothing is in the way, while
// they look again and again.
func TestWaitersBehindAGuardLeaveConnectionsForOthers(t *testing.T) {
	t.Parallel()
	const connections = 4
	for kind, of := range map[string]driver.Kind{"permit": driver.Permit, "write": driver.Read} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			config := d.config(t)
			config.MaxConns = connections
			service, err := postgres.NewService(config, d.options(0))
			require.NoError(t, err)
			in, err := service.Open(within(t, soon), time.Hour)
			require.NoError(t, err)

			d.exec(t, "INSERT INTO farsync_sessions VALUES ('ends', farsync_begin_5(3600000000), 3600000000)")
			ctx, cancel := context.WithCancel(within(t, 3*soon))
			var all, looks errgroup.Group
			watch := func(n int) func() error {
				queue := fmt.Sprint("/behind/", n)
				d.exec(t, "SELECT farsync_create($1, $2, 1, 'ends', $3, 1, NULL, 0)", queue, fmt.Sprint("a", n), kind)
				d.exec(t, "INSERT INTO farsync_registers VALUES ($1, '1 1', 1)", queue)
				v, err := in.Create(within(t, soon), driver.Entry{Queue: queue, ID: in.NewID(queue, of, 1), Kind: of, Units: 1}, 0)
				require.NoError(t, err)
				require.Len(t, v.Entries, 1)
				on := []driver.Target{{Entry: v.Entries[0]}}
				if of == driver.Permit {
					on = append(on, driver.Target{What: driver.Registered, Entry: driver.Entry{Queue: queue, Version: v.Register.Version}})
				}
				return func() error {
					for ctx.Err() == nil { // as in a Store
						_, err := in.Watch(ctx, v.Self, on, func() {})
						if err != nil && ctx.Err() == nil {
							return err
						}
					}
					return nil
				}
			}
			var watches []func() error
			for n := range connections {
				watches = append(watches, watch(n))
			}
			d.exec(t, "SELECT farsync_create('/guarded', 'z', 1, 'ends', $1, 1, NULL, 0)", kind) // which is locked last
			guard := d.kept(t, driver.Entry{ID: "z"})
			all.Go(func() error {
				_, err := d.admin.Exec(within(t, 3*soon), "SELECT farsync_end('ends')")
				return err
			})
			d.awaitBlocked(t, "farsync_end")
			for _, f := range watches {
				looks.Go(f)
			}
			// What waits for a row has a lock of its place in the table. A wait that is bounded comes again, so all are
			// seen.
			seen := map[string]bool{}
			require.Eventually(t, func() bool {
				rows, err := d.admin.Query(within(t, soon), `SELECT e.id FROM pg_locks l JOIN farsync_entries e
					ON e.ctid = format('(%s,%s)', l.page, l.tuple)::tid WHERE l.locktype = 'tuple' AND l.relation = 'farsync_entries'::regclass`)
				require.NoError(t, err)
				defer rows.Close()
				for rows.Next() {
					var id string
					require.NoError(t, rows.Scan(&id))
					if id != "z" {
						seen[id] = true
					}
				}
				return len(seen) == connections
			}, soon, time.Millisecond)
			_, err = in.List(within(t, soon), "/free", 1)
			require.NoError(t, err)
			_, err = in.Create(within(t, soon), driver.Entry{Queue: "/free", ID: in.NewID("/free", driver.Read, 1), Kind: driver.Read, Units: 1}, 0)
			require.NoError(t, err)
			require.NoError(t, guard.Commit(within(t, soon)))
			require.NoError(t, all.Wait())
			cancel()
			require.NoError(t, looks.Wait())
			require.NoError(t, in.Close(within(t, soon)))
			require.NoError(t, service.Close())
		})
	}
}
