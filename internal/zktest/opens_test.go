package zktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

func TestOpensThatAreGivenUp(t *testing.T) {
	noLeaks(t)
	server := embedtest.ZooKeeper(t)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return zk.Open(ctx, []string{server.Endpoint()}, withTTL(time.Second))
	}, func() int {
		list, err := server.FourLetter(within(t, soon), "dump")
		require.NoError(t, err)
		return strings.Count(list, "\n\t0x")
	})
}
