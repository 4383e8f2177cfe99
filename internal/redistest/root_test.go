package redistest_test

import (
	"fmt"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestKeyOfTheNamespaceThatIsLost: while another program has put something else in the place of a key of the namespace itself, sessions are
// renewed, or are told of the key by its name, and nobody is let in beside a holder. Once the key is deleted, all goes on where it was.
// Where the server's own record was lost, all sessions end instead, and nothing is granted before the last of them has learned it.
func TestKeyOfTheNamespaceThatIsLost(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	for _, row := range []struct {
		key     string
		joins   bool // others may join meanwhile
		renews  bool // sessions are renewed meanwhile
		ends    bool // sessions end by it
		deleted bool // at once
	}{
		{key: "sessions"},
		{key: "sessions", deleted: true, joins: true, renews: true},
		{key: "queues", renews: true},
		{key: "queues", deleted: true, joins: true, renews: true},
		{key: "todo", joins: true, renews: true},
		{key: "todo", deleted: true, joins: true, renews: true},
		{key: "revision", renews: true},
		{key: "revision", deleted: true, joins: true, renews: true},
		{key: "server", ends: true},
		{key: "server", deleted: true, ends: true},
		{key: "mark", ends: true},
		{key: "mark", deleted: true, ends: true},
	} {
		t.Run(fmt.Sprint(row.key, "/", row.deleted), func(t *testing.T) {
			t.Parallel()
			options := fresh(0)
			options.Namespace = fmt.Sprint(row.key, "-", row.deleted)
			prefix := "farsync:{" + options.Namespace + "}:"
			key := prefix + row.key
			service := newService(t, server.Endpoint(), options)
			open := func() driver.Session { return openOn(t, service, time.Hour) }
			holds, waits, dies := open(), open(), open()
			_, err := waits.SetRegister(within(t, soon), "/units", "2 2", 0, driver.Entry{})
			require.NoError(t, err)
			held := create(t, holds, "/held", driver.Exclusive)
			behind := create(t, waits, "/held", driver.Exclusive)
			dead := create(t, dies, "/dead", driver.Exclusive)
			behindDead := create(t, waits, "/dead", driver.Exclusive)
			units := []driver.Entry{joinUnits(t, holds, "/units", 1), joinUnits(t, dies, "/units", 1), joinUnits(t, waits, "/units", 1)}
			require.Empty(t, held.Entries)
			require.Empty(t, dead.Entries)

			require.NoError(t, admin.Del(within(t, soon), key).Err())
			if !row.deleted {
				require.NoError(t, admin.ZAdd(within(t, soon), key, client.Z{Member: "x"}).Err())
				if row.key == "sessions" || row.key == "queues" {
					require.NoError(t, admin.Set(within(t, soon), key, "x", 0).Err())
				}
			}
			named := func(err error) {
				t.Helper()
				require.ErrorContains(t, err, key+": another program")
				require.Equal(t, driver.Refused, service.Outcome(err))
			}
			renew := func(in driver.Session) error { return in.Renew(within(t, soon), nil) }
			if !row.ends {
				for _, in := range []driver.Session{holds, waits} {
					if err := renew(in); row.renews {
						require.NoError(t, err)
					} else {
						named(err)
					}
				}
				if v, err := join(t, waits, "/held", driver.Exclusive); row.joins {
					require.NoError(t, err)
					require.NotEmpty(t, v.Entries, "nobody is let in")
				} else {
					named(err)
				}
				require.NoError(t, admin.Del(within(t, soon), key).Err())
			}
			if row.ends {
				switch {
				case !row.deleted && row.key == "server":
					named(renew(holds))
					require.NoError(t, admin.Del(within(t, soon), key).Err())
				case row.key == "mark":
					require.Equal(t, driver.Expired, service.Outcome(renew(holds)))
				}
				next := openOn(t, newService(t, server.Endpoint(), options), time.Minute) // of a service that is told that the server is new
				v, err := join(t, next, "/held", driver.Exclusive)
				require.NoError(t, err)
				require.NotEmpty(t, v.Entries, "nobody is let in")
				require.Equal(t, driver.Expired, service.Outcome(renew(holds)))
				until, _ := next.Silence()
				require.Greater(t, time.Until(until), 59*time.Minute, "as long as somebody may hold")
				require.NoError(t, admin.HSet(within(t, soon), prefix+"server", "quiet", 0).Err())
				require.NoError(t, next.Close(within(t, soon)))
				next = open()
				for _, k := range []driver.Kind{driver.Exclusive, driver.Permit} {
					path := map[driver.Kind]string{driver.Exclusive: "/held", driver.Permit: "/units"}[k]
					require.Empty(t, create(t, next, path, k).Entries, "granted")
				}
				return
			}

			// A session that was opened since, and whoever waits behind a process that is dead.
			next := open()
			for range 2 {
				for _, in := range []driver.Session{next, holds, waits} {
					require.NoError(t, renew(in))
				}
			}
			for _, e := range []driver.Entry{behind.Self, behindDead.Self, units[2]} {
				v, err := waits.Ahead(within(t, soon), e, true)
				require.NoError(t, err)
				require.NotEmpty(t, v.Entries)
				require.NotZero(t, v.Entries[0].Units)
			}
			v, err := next.Survey(within(t, soon), "/", "", 100)
			require.NoError(t, err)
			seen := map[string]int{}
			for _, e := range v.Entries {
				seen[e.Queue]++
			}
			require.Len(t, seen, 3, "all queues are shown")
			require.NoError(t, admin.ZAddXX(within(t, soon), prefix+"sessions", client.Z{Score: 1, Member: dies.Name()}).Err())
			require.NoError(t, renew(next))
			_, err = holds.Find(within(t, soon), held.Self)
			require.NoError(t, err)
			_, err = next.Find(within(t, soon), dead.Self)
			require.ErrorIs(t, err, driver.ErrGone)
			v, err = waits.Ahead(within(t, soon), behindDead.Self, true)
			require.NoError(t, err)
			require.Empty(t, v.Entries)
			require.NotEmpty(t, admin.HGet(within(t, soon), prefix+"e:"+units[2].ID, "granted").Val(), "the units of the dead process are free")
			_, found, err := holds.Delete(within(t, soon), held.Self)
			require.NoError(t, err)
			require.True(t, found)
			v, err = waits.Ahead(within(t, soon), behind.Self, true)
			require.NoError(t, err)
			require.Empty(t, v.Entries)
		})
	}
}
