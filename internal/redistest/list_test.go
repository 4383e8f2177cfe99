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

// TestListEndsBehindAnEntryWithoutHash: List reads on behind the last entry of a page, also if a person has removed the hash of
// that one.
func TestListEndsBehindAnEntryWithoutHash(t *testing.T) {
	t.Parallel()
	const page = 256
	server := embedtest.Redis(t)
	admin, in := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	var last driver.Entry
	for range page {
		last = create(t, in, "/list", driver.Read).Self
	}
	require.NoError(t, admin.Del(within(t, soon), prefix+"e:"+last.ID).Err())
	v, err := in.List(within(t, soon), "/list", 2*page)
	require.NoError(t, err)
	require.Len(t, v.Entries, page)
	require.True(t, v.All)
	require.Equal(t, last.Revision, v.Entries[page-1].Revision)
}

// TestSurveyShowsQueuesWithAnotherScore, which another program has written into the set of queues: the set is in the
// order of the paths only while all scores are one.
func TestSurveyShowsQueuesWithAnotherScore(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin, in := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	var paths []string
	for _, path := range []string{"/a", "/b", "/m", "/y", "/z"} {
		create(t, in, path, driver.Exclusive)
		paths = append(paths, path)
	}
	for path, score := range map[string]float64{"/a": math.Inf(1), "/m": -1, "/y": 1, "/z": math.Inf(-1)} {
		require.NoError(t, admin.ZAdd(within(t, soon), prefix+"queues", client.Z{Member: path, Score: score}).Err())
	}
	v, err := in.Survey(within(t, soon), "/", "", 100)
	require.NoError(t, err)
	var shown []string
	for _, e := range v.Entries {
		shown = append(shown, e.Queue)
	}
	require.Equal(t, paths, shown)
}

// TestEntryOfASessionThatIsNotThereShowsNone: whoever looks is to see that no session will end it. A session that is
// missing and has its set of entries is put back, so it is shown.
func TestEntryOfASessionThatIsNotThereShowsNone(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin, looks := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	lives, missing, gone := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	want := map[string]string{}
	for _, in := range []driver.Session{lives, missing, gone} {
		want[create(t, in, "/unknown", driver.Read).Self.ID] = in.Name()
	}
	for _, in := range []driver.Session{missing, gone} {
		require.EqualValues(t, 1, admin.ZRem(within(t, soon), prefix+"sessions", in.Name()).Val())
	}
	require.EqualValues(t, 1, admin.Del(within(t, soon), prefix+"s:"+gone.Name()).Val())
	for id, session := range want {
		if session == gone.Name() {
			want[id] = ""
		}
	}
	shown := func(v driver.View, err error) map[string]string {
		require.NoError(t, err)
		is := map[string]string{}
		for _, e := range v.Entries {
			is[e.ID] = e.Session
		}
		return is
	}
	require.Equal(t, want, shown(looks.List(within(t, soon), "/unknown", 0)))
	require.Equal(t, want, shown(looks.Survey(within(t, soon), "/", "", 100)))
}
