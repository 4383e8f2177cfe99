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

// TestSurveyShowsQueuesWithAnotherScore, which another program has written into the set of queues: the set is in the order of the paths only while
// all scores are one.
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
