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
	for name, row := range map[string]struct {
		flags []string
		said  string
	}{
		"more than is granted": {[]string{"--ttl", "2m"}, ""},
		"the longest grace": {
			[]string{"--ttl", "40s", "--grace", "20s"},
			"farsync: --grace 20s is longer than a TTL of 40s allows: COMMAND is told to end 12s before the lock is lost\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "zk://"+server.Endpoint(), append(append([]string{"run"}, row.flags...), newPath(), "--", "sh", "-c", "echo $FARSYNC_TTL; exec renewed 2")...)
			require.Equal(t, 3, p.code(t))
			require.Equal(t, "40s\n", p.out.String())
			require.Equal(t, row.said, p.err.String())
		})
	}
}
