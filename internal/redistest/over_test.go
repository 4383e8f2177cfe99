package redistest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestManyThatHaveRunOutAreNoStrays: a session that has run out is removed in parts. What is left of it goes soon, so it refuses
// no waiter, and a single renewal of another session sees to it that all of it goes.
func TestManyThatHaveRunOutAreNoStrays(t *testing.T) {
	suite.Long(t, suite.Redis, "waits for sessions with 3,000 entries, which must not all go before")
	t.Parallel()
	server := embedtest.Redis(t)
	admin := newClient(t, server.Endpoint())
	dead, in := openSession(t, server.Endpoint(), time.Hour), openSession(t, server.Endpoint(), time.Hour)
	const entries, waiters = 3000, 3
	for i := range entries {
		create(t, dead, fmt.Sprint("/many/", i), driver.Exclusive)
	}
	session, err := admin.HGet(within(t, soon), prefix+"e:"+create(t, dead, "/many", driver.Exclusive).Self.ID, "session").Result()
	require.NoError(t, err)
	over := []client.Z{{Score: 1, Member: session}}
	for i := range 40 {
		over = append(over, client.Z{Score: 1, Member: fmt.Sprint("dead", i)})
	}
	require.NoError(t, admin.ZAdd(within(t, soon), prefix+"sessions", over...).Err())

	var watches, stand sync.WaitGroup
	found := 0
	for i := 0; i < entries && found < waiters; i++ {
		v := create(t, in, fmt.Sprint("/many/", i), driver.Exclusive)
		if len(v.Entries) == 0 {
			continue // it has gone already
		}
		found++
		stand.Add(1)
		watches.Go(func() {
			stands := sync.OnceFunc(stand.Done)
			defer stands()
			_, err := in.Watch(within(t, soon), v.Self, []driver.Target{{Entry: v.Entries[0]}}, stands)
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Equal(t, waiters, found)
	stand.Wait()
	require.NoError(t, in.Renew(within(t, soon), nil))
	watches.Wait()
	for n := int64(1); n > 0; {
		n, err = admin.ZCount(within(t, soon), prefix+"sessions", "-inf", "1").Result()
		require.NoError(t, err)
	}
}
