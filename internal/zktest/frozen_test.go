package zktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

// TestCallsThatNobodyAnswersReturn: the server takes connections and requests, and answers nothing. Every
// call is back when its ctx ends, or its own bound is met; and when the server goes on, nothing is left of any.
func TestCallsThatNobodyAnswersReturn(t *testing.T) {
	noLeaks(t)
	server := embedtest.ZooKeeper(t)
	locktest.RunFrozen(t, locktest.Frozen{
		Open: func(t *testing.T, ttl time.Duration) *farsync.Store {
			return newStore(t, server.Endpoint(), withTTL(ttl))
		},
		Long:   40 * time.Second, // the longest that the server grants
		Short:  3 * time.Second,
		Freeze: server.Pause,
		Resume: server.Resume,
		Late:   soon,
	})
}

func TestOpenReturnsWhenTheServerIsFrozen(t *testing.T) {
	noLeaks(t)
	server := embedtest.ZooKeeper(t)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, locktest.Returns(t, soon, "Open", func() error {
		_, err := zk.Open(ctx, []string{server.Endpoint()}, nil)
		return err
	}), context.DeadlineExceeded)
}
