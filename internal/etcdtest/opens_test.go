package etcdtest_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/locktest"
)

func TestOpensThatAreGivenUp(t *testing.T) {
	_, client := begin(t)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return etcd.Open(ctx, client, short)
	}, func() int {
		resp, err := client.Leases(within(t, soon))
		require.NoError(t, err)
		return len(resp.Leases)
	})
}

// TestClientClosedWhileItsStoreOpens: an Open either succeeds, and its Store ends with the client, or says why it did not.
func TestClientClosedWhileItsStoreOpens(t *testing.T) {
	server, admin := begin(t)
	var all sync.WaitGroup
	for range 50 {
		client := clientOf(t, clientv3.Config{Endpoints: []string{server.Endpoint()}})
		all.Go(func() {
			time.AfterFunc(rand.N(10*time.Millisecond), func() { _ = client.Close() })
			store, err := etcd.Open(t.Context(), client, short)
			if err != nil {
				assert.ErrorIs(t, err, farsync.ErrClosed) //nolint:testifylint // not in the test's goroutine
				assert.NotErrorIs(t, err, farsync.ErrUnavailable)
				return
			}
			_, err = farsync.NewMutex(store, "/closed").Lock(t.Context())
			for err == nil {
				_, err = farsync.NewMutex(store, "/closed/again").TryLock(t.Context())
			}
			_ = store.Close() // says that it could not end the session
		})
	}
	all.Wait()
	require.Eventually(t, func() bool {
		resp, err := admin.Leases(within(t, soon))
		return err == nil && len(resp.Leases) == 0
	}, soon, 10*time.Millisecond)
}
