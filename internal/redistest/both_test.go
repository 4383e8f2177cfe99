package redistest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestServerAndSessionsThatAreDeletedTogether: nothing but the entries says any more for how long their sessions may
// believe in them. A Store with a shorter TTL, which comes then, is granted nothing that somebody with a longer TTL
// still holds.
func TestServerAndSessionsThatAreDeletedTogether(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	for _, row := range []struct {
		fresh   bool // who comes then claims that a namespace without a record is new: nothing is silent
		renewed bool // the holder is the first to be heard of again
	}{{}, {fresh: true}, {fresh: true, renewed: true}} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			t.Parallel()
			options := fresh(0)
			options.Namespace = fmt.Sprint("both-", row.fresh, "-", row.renewed)
			prefix := "farsync:{" + options.Namespace + "}:"
			open := func(ttl time.Duration) driver.Session {
				return openOn(t, newService(t, server.Endpoint(), options), ttl)
			}
			holds := open(time.Hour)
			kinds := []driver.Kind{driver.Exclusive, driver.Write, driver.Read, driver.Permit}
			for _, k := range kinds {
				_, err := holds.SetRegister(within(t, soon), "/held/"+k.String(), "1 1", 0, driver.Entry{})
				require.NoError(t, err)
				require.Empty(t, create(t, holds, "/held/"+k.String(), k).Entries)
			}
			require.NoError(t, admin.Del(within(t, soon), prefix+"server", prefix+"sessions").Err())
			options.Fresh = row.fresh
			short := 10 * time.Second
			if suite.More(t, suite.Redis) { // its end is waited for
				short = time.Second
			}
			next := open(short)
			if row.renewed {
				// A request that moves no deadline.
				_, err := holds.Owned(within(t, soon), nil)
				require.NoError(t, err)
			}
			var waits []driver.Entry
			for _, k := range kinds {
				path := "/held/" + k.String()
				if k == driver.Read {
					k = driver.Write
				}
				v := create(t, next, path, k)
				waits = append(waits, v.Self)
				require.NotEmpty(t, v.Entries, k)
			}
			const nearly = 59 * time.Minute
			if until, _ := next.Silence(); !row.fresh {
				require.Greater(t, time.Until(until), nearly, "all sessions end, and nothing is granted as long as one may be believed in")
			} else {
				ends, err := admin.ZScore(within(t, soon), prefix+"sessions", holds.Name()).Result()
				require.NoError(t, err)
				require.Greater(t, time.Until(time.UnixMicro(int64(ends))), nearly, "the session is believed in")
			}
			ttl, err := admin.HGet(within(t, soon), prefix+"server", "ttl").Int64()
			require.NoError(t, err)
			require.Equal(t, time.Hour.Microseconds(), ttl, "for the next introduction")
			if short > time.Second {
				return
			}
			<-time.After(2 * short)
			again := open(time.Minute)
			require.NoError(t, again.Renew(within(t, soon), nil), "which ends what has run out")
			for _, e := range waits {
				require.NotEmpty(t, create(t, again, e.Queue, e.Kind).Entries, "two hold %s", e.Queue)
			}
		})
	}
}

// TestRecordOfTheServerThatIsNoRecord is as none: all sessions end, and nothing is granted before the last of them has
// learned it.
func TestRecordOfTheServerThatIsNoRecord(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	for _, field := range []string{"ttl", "quiet", "term", "mark", "run_id", "script"} {
		for _, value := range []string{"", "abc", "-1"} {
			name := fmt.Sprint(field, value)
			options := fresh(0)
			options.Namespace = name
			key := "farsync:{" + name + "}:server"
			service := newService(t, server.Endpoint(), options)
			holds := openOn(t, service, time.Hour)
			require.Empty(t, create(t, holds, "/held", driver.Exclusive).Entries, name)
			if value == "" {
				require.NoError(t, admin.HDel(within(t, soon), key, field).Err())
			} else {
				require.NoError(t, admin.HSet(within(t, soon), key, field, value).Err())
			}
			next := openOn(t, newService(t, server.Endpoint(), options), time.Minute)
			require.NotEmpty(t, create(t, next, "/held", driver.Exclusive).Entries, name)
			if err := holds.Renew(within(t, soon), nil); err != nil {
				require.Equal(t, driver.Expired, service.Outcome(err), name)
				until, _ := next.Silence()
				require.Greater(t, time.Until(until), 59*time.Minute, name)
			} else {
				require.Contains(t, []string{"term", "script"}, field, "nobody is let in for these")
			}
		}
	}
}

// TestRevisionThatIsNone: the error says which key holds what, and nothing else is the matter.
func TestRevisionThatIsNone(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	in := openOn(t, service, time.Hour)
	held := create(t, in, "/held", driver.Exclusive)
	for _, text := range []string{"abc", "-1", "1.5", "1e300", "", "two\nlines", "nan"} {
		require.NoError(t, admin.Set(within(t, soon), prefix+"revision", text, 0).Err())
		_, err := join(t, in, "/held", driver.Exclusive)
		require.EqualError(t, err, fmt.Sprintf(
			"%srevision: another program has put a text there that is no number of farsync's: delete it if nothing needs it (it reads %q)", prefix, text))
		require.Equal(t, driver.Refused, service.Outcome(err))
		require.NoError(t, in.Renew(within(t, soon), nil))
	}
	require.NoError(t, admin.Del(within(t, soon), prefix+"revision").Err())
	require.NoError(t, admin.LPush(within(t, soon), prefix+"revision", "x").Err())
	_, err := join(t, in, "/held", driver.Exclusive)
	require.EqualError(t, err, prefix+"revision: another program has put a key of another type there: delete it if nothing needs it")
	require.NoError(t, admin.Del(within(t, soon), prefix+"revision").Err())
	v := create(t, in, "/held", driver.Exclusive)
	require.Greater(t, v.Self.Revision, held.Self.Revision)
	require.NotEmpty(t, v.Entries)
}

// TestSessionsThatAreOverwrittenAreNamedByEachRequest that needs them, and nothing is written.
func TestSessionsThatAreOverwrittenAreNamedByEachRequest(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	in := openOn(t, service, time.Hour)
	held := create(t, in, "/held", driver.Exclusive).Self
	key := prefix + "sessions"
	require.NoError(t, admin.Set(within(t, soon), key, "x", 0).Err())
	before := admin.DBSize(within(t, soon)).Val()
	for name, request := range map[string]func() error{
		"create": func() error { _, err := join(t, in, "/other", driver.Exclusive); return err },
		"ahead":  func() error { _, err := in.Ahead(within(t, soon), held, true); return err },
		"watch": func() error {
			_, err := in.Watch(within(t, soon), driver.Entry{}, []driver.Target{{Entry: held, What: driver.Gone}}, func() {})
			return err
		},
		"set":   func() error { _, err := in.SetRegister(within(t, soon), "/size", "1 1", 0, driver.Entry{}); return err },
		"owned": func() error { _, err := in.Owned(within(t, soon), nil); return err },
		"renew": func() error { return in.Renew(within(t, soon), nil) },
		"open":  func() error { _, err := service.Open(within(t, soon), time.Hour); return err },
	} {
		err := request()
		require.ErrorContains(t, err, key+": another program", name)
		require.Equal(t, driver.Refused, service.Outcome(err), name)
	}
	require.Equal(t, before, admin.DBSize(within(t, soon)).Val())
	require.NoError(t, admin.Del(within(t, soon), key).Err())
	_, err := in.Find(within(t, soon), held)
	require.NoError(t, err)
	require.NoError(t, in.Renew(within(t, soon), nil))
}
