//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// TestWhatZooKeeperRenewsIsNotToldToEnd: the times of COMMAND are reckoned from the TTL that is granted, which is 20 ticks at most, and a
// lease that counts from the last renewal but one leaves less for the grace.
func TestWhatZooKeeperRenewsIsNotToldToEnd(t *testing.T) {
	suite.Long(t, suite.Command, "waits for renewals with a TTL of 40 s")
	t.Parallel()
	server := embedtest.ZooKeeper(t, embedtest.Ticks(2*time.Second, 5))
	for name, flags := range map[string][]string{
		"more than is granted": {"--ttl", "2m"},
		"the longest grace":    {"--ttl", "40s", "--grace", "20s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "zk://"+server.Endpoint(), append(append([]string{"run"}, flags...), newPath(), "--", "sh", "-c", "echo $FARSYNC_TTL; exec renewed 2")...)
			require.Equal(t, 3, p.code(t))
			require.Equal(t, "40s\n", p.out.String())
			require.Empty(t, p.err.String())
		})
	}
}
