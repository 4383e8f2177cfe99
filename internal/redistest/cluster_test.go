package redistest_test

import (
	"context"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// TestAnswersDoNotAskWhoTheMasterIs: in a cluster a request that fails has the client ask which server has the slot by now. An answer that
// says no, as that an entry is gone, has come from that server.
func TestAnswersDoNotAskWhoTheMasterIs(t *testing.T) {
	suite.Long(t, suite.Redis, "counts what a cluster is asked, while its client asks by itself")
	t.Parallel()
	cluster := embedtest.RedisClusterOf(t, 3)
	s, err := redis.NewService(&client.UniversalOptions{Addrs: cluster.Endpoints(), IsClusterMode: true}, fresh(0))
	require.NoError(t, err)
	in, err := s.Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	asked := func() (n int) {
		for i := range 6 {
			calls := commands(t, newClient(t, cluster.Member(i).Endpoint()))
			n += calls["cluster|slots"] + calls["cluster|shards"]
		}
		return n
	}
	before, began := asked(), time.Now()
	for range 1000 {
		_, err := in.Find(within(t, soon), driver.Entry{Queue: "/gone", ID: "exclusive-gone"})
		require.ErrorIs(t, err, driver.ErrGone)
	}
	n := asked() - before
	t.Log(n, "times in", time.Since(began))
	const itself = 10 * time.Second // after which the client asks by itself
	require.LessOrEqual(t, n, int(time.Since(began)/itself))
}
