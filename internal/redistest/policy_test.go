package redistest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/redis"
)

// TestPolicyThatIsSetUnderARunningStore: Open refuses a server that may remove locks when its memory is full. One that
// comes to do so later is warned of within a TTL, which is four renewals, by no request more.
func TestPolicyThatIsSetUnderARunningStore(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	var log locktest.Log
	in, err := newService(t, server.Endpoint(), &redis.Options{
		Options: farsync.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, Fresh: true,
	}).Open(within(t, soon), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	renewals := func() {
		for range 4 {
			require.NoError(t, in.Renew(within(t, soon), nil))
		}
	}
	for _, fine := range []string{"noeviction", "volatile-lru"} {
		require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory-policy", fine).Err())
		renewals()
	}
	require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory-policy", "allkeys-lru").Err())
	renewals()
	const words = `level=WARN msg="the redis server removes locks when its memory is full: two may hold then" maxmemory-policy=`
	log.Await(t, words+"allkeys-lru")
	renewals()
	require.NoError(t, admin.ConfigSet(within(t, soon), "maxmemory-policy", "noeviction").Err())
	renewals()
	log.Await(t, "removes no locks any more")
	require.Equal(t, 1, strings.Count(log.String(), words), "of one policy, and once")
}
