package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/redis"
)

// TestDataThatAreReplacedWhileTheServerRunsTellTheHolder: the server is the one that it was, and what it has is not.
// Nobody holds beside the holder, for nothing is granted for a TTL.
func TestDataThatAreReplacedWhileTheServerRunsTellTheHolder(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		t.Run(map[bool]string{false: "they are removed", true: "they are those of an earlier moment"}[back], func(t *testing.T) {
			t.Parallel()
			server := embedtest.Redis(t)
			admin := newClient(t, server.Endpoint())
			options := fresh(10 * time.Second)
			require.NoError(t, newStore(t, server.Endpoint(), options).Close())
			dumps := map[string]string{} // of a namespace that has been used
			if back {
				keys, err := admin.Keys(within(t, soon), "*").Result()
				require.NoError(t, err)
				require.NotEmpty(t, keys)
				for _, key := range keys {
					dumps[key], err = admin.Dump(within(t, soon), key).Result()
					require.NoError(t, err)
				}
			}
			x := locktest.Exchange{
				Open: func(t *testing.T) *farsync.Store { return newStore(t, server.Endpoint(), options) },
				Do: func(t *testing.T) {
					options = &redis.Options{Options: options.Options} // whoever comes now claims nothing
					all := admin.TxPipeline()
					all.FlushAll(within(t, soon))
					for key, dump := range dumps {
						all.Restore(within(t, soon), key, 0, dump)
					}
					_, err := all.Exec(within(t, soon))
					require.NoError(t, err)
				},
			}
			if !suite.More(t, suite.Redis) { // who comes next waits for a TTL
				locktest.HolderIsTold(t, x)
				return
			}
			locktest.RunExchange(t, x)
		})
	}
}
