package main

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

var longest = flag.Int("longest", 300, "how many entries stand in the longest queue that TestJoinsBehindLongQueues joins")

// TestJoinsBehindLongQueues counts what joining a queue and leaving it takes. The requests are the same behind 10 entries and behind
// thousands, but for one more on the databases, where the first answer then does not show what is ahead. Their bytes are
// bounded wherever the service can be asked for a part of a queue. ZooKeeper's answer is the names of all that stand there.
func TestJoinsBehindLongQueues(t *testing.T) {
	suite.Long(t, suite.Etcd, "counts requests while timers may fire")
	suite.Long(t, suite.ZooKeeper, "counts requests while timers may fire")
	suite.Long(t, suite.Redis, "counts requests while timers may fire")
	suite.Long(t, suite.Postgres, "counts requests while timers may fire")
	suite.Long(t, suite.MySQL, "counts requests while timers may fire")
	for _, c := range []struct {
		store    string
		requests float64 // behind the longest queue, at most
		received float64 // bytes, at most, likewise
	}{
		{onEtcd, 2.1, 1_500},
		{onZooKeeper, 3.1, 2_000 + 70*float64(*longest)},
		{onRedis, 2.1, 1_000},
		{onPostgres, 3.1, 25_000},
		{onMySQL, 3.1, 25_000},
	} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			on := siteFor(t, siteSpec{store: c.store})
			waiting := 0
			for _, n := range []int{10, 100, *longest} {
				stage, err := newStage(on, 0, nil)
				require.NoError(t, err)
				t.Cleanup(stage.close)
				require.NoError(t, storeOf(c.store).fill(t.Context(), stage, n-waiting))
				waiting = n
				counted := countJoins(t, c.store, on)
				t.Logf("behind %d: %.1f requests, %.0f bytes sent, %.0f received", n, counted.Requests, counted.Sent, counted.Received)
				require.LessOrEqual(t, counted.Requests, c.requests, fmt.Sprint("behind ", n))
				require.LessOrEqual(t, counted.Received, c.received, fmt.Sprint("behind ", n))
			}
		})
	}
}

// countJoins returns what one join and its leave take, the mean of twenty.
func countJoins(t *testing.T, store string, on *site) (c wireCount) {
	var tally tally
	stage, err := newStage(on, 0, &tally)
	require.NoError(t, err)
	defer stage.close()
	m, err := storeOf(store).memberOf(t.Context(), stage)
	require.NoError(t, err)
	const times = 20
	var from count
	for i := range times + 1 {
		if i == 1 { // the first one prepares what a connection needs
			from = tally.now()
		}
		e, err := m.join(t.Context())
		require.NoError(t, err)
		_, _, err = m.Delete(t.Context(), e)
		require.NoError(t, err)
	}
	to := tally.now()
	return wireCount{
		Requests: float64(to.requests-from.requests) / times, Replies: float64(to.replies-from.replies) / times,
		Sent: float64(to.sent-from.sent) / times, Received: float64(to.received-from.received) / times,
	}
}
