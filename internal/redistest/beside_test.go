package redistest_test

import (
	"math"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestRevisionThatIsLostLetsNobodyPass: whoever joins stands behind all that are there, also where the last revision is lost and the clock
// is behind it, and is refused where there is no next revision.
func TestRevisionThatIsLostLetsNobodyPass(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	in := openSession(t, server.Endpoint(), time.Hour)
	const key = prefix + "revision"
	const ahead = 4e15 // as the clock was, before it was set back
	require.NoError(t, admin.Set(within(t, soon), key, int64(ahead), 0).Err())
	held := create(t, in, "/lost", driver.Exclusive)
	require.Empty(t, held.Entries)
	for range 2 {
		require.NoError(t, admin.Del(within(t, soon), key).Err())
		v, err := join(t, in, "/lost", driver.Exclusive)
		require.NoError(t, err)
		require.NotEmpty(t, v.Entries, "beside the holder")
		require.Greater(t, v.Self.Revision, held.Self.Revision)
	}
	for _, last := range []string{"100000000000000000", "inf", "nan", "-1", "x"} {
		require.NoError(t, admin.Set(within(t, soon), key, last, 0).Err())
		for range 2 {
			_, err := join(t, in, "/large", driver.Exclusive)
			require.ErrorContains(t, err, key+": another program", last)
			require.Equal(t, driver.Refused, service.Outcome(err), last)
		}
	}
	require.NoError(t, admin.Del(within(t, soon), key).Err())
	other := client.Z{Score: 1<<53 - 1, Member: "other"} // of another program
	require.NoError(t, admin.ZAdd(within(t, soon), prefix+"q:/other", other).Err())
	for range 2 {
		_, err := join(t, in, "/other", driver.Exclusive)
		require.NoError(t, err)
	}
	for i := range 2 {
		v, err := join(t, in, "/large", driver.Exclusive)
		require.NoError(t, err)
		require.Len(t, v.Entries, i)
	}
}

// TestUnitsThatCannotBeCountedAreAllInUse: whoever waits beside an entry in which another program has written such a number waits until
// it has left.
func TestUnitsThatCannotBeCountedAreAllInUse(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	for _, units := range []string{"99999999999999999999", "9007199254740991", "inf", "0.5"} {
		path := "/units/" + units
		_, err := in.SetRegister(within(t, soon), path, "2 2", 0, driver.Entry{})
		require.NoError(t, err)
		first, second, waits := joinUnits(t, in, path, 1), joinUnits(t, in, path, 1), joinUnits(t, in, path, 2)
		require.NoError(t, admin.HSet(within(t, soon), prefix+"e:"+first.ID, "units", units).Err())
		require.NoError(t, admin.HDel(within(t, soon), prefix+"size:"+path, "held").Err())
		look := func(granted bool) {
			t.Helper()
			v, err := in.Ahead(within(t, soon), waits, true)
			require.NoError(t, err, units)
			require.Equal(t, granted, len(v.Entries) == 0, units)
		}
		look(false)
		for _, e := range []driver.Entry{second, first} {
			look(false)
			_, found, err := in.Delete(within(t, soon), e)
			require.NoError(t, err, units)
			require.True(t, found)
		}
		look(true)
		require.Equal(t, []any{"2", "1"}, admin.HMGet(within(t, soon), prefix+"size:"+path, "held", "granted").Val(), units)
	}
}

// TestEntryAheadOfAllThatIsNoneOfFarsyncs is shown to a reader, and looked for once.
func TestEntryAheadOfAllThatIsNoneOfFarsyncs(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	in := openSession(t, server.Endpoint(), time.Hour)
	const path, other = "/first", "1" // which is sorted before what stands in front of all entries
	create(t, in, path, driver.Read)
	require.NoError(t, admin.HSet(within(t, soon), prefix+"e:"+other, "queue", path, "session", in.Name(), "kind", "write").Err())
	require.NoError(t, admin.ZAdd(within(t, soon), prefix+"q:"+path, client.Z{Score: math.Inf(-1), Member: other}).Err())
	require.NoError(t, admin.Del(within(t, soon), prefix+"x:"+path).Err())
	for range 2 {
		v, err := in.Ahead(within(t, soon), driver.Entry{Queue: path, Kind: driver.Read, Units: 1}, true)
		require.NoError(t, err)
		require.Len(t, v.Entries, 1)
		require.Equal(t, other, v.Entries[0].ID)
	}
}

// TestSessionsThatAreLostBeforeAnIntroductionEnd: what was granted since the data of this server is not in it, so no session may go on.
func TestSessionsThatAreLostBeforeAnIntroductionEnd(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	service := newService(t, server.Endpoint(), fresh(0))
	holds, waits := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	create(t, holds, "/held", driver.Exclusive)
	create(t, waits, "/held", driver.Exclusive)
	require.NoError(t, admin.Del(within(t, soon), prefix+"sessions").Err())
	require.NoError(t, admin.HSet(within(t, soon), prefix+"server", "run_id", "of another server").Err())
	next := openSession(t, server.Endpoint(), time.Hour)
	until, _ := next.Silence()
	require.Greater(t, time.Until(until), 59*time.Minute)
	for _, in := range []driver.Session{waits, holds} {
		require.Equal(t, driver.Expired, service.Outcome(in.Renew(within(t, soon), nil)))
	}
	for range 2 {
		require.NoError(t, next.Renew(within(t, soon), nil))
	}
	require.Zero(t, admin.Exists(within(t, soon), prefix+"q:/held").Val())
	require.EqualValues(t, 1, admin.ZCard(within(t, soon), prefix+"sessions").Val())
}
