package redistest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestSilenceEndsForTheNextPermit: nothing is granted for a while after a restart, also when a permit goes that waited ahead
// of another. The one that is then the first is granted when the silence is over.
func TestSilenceEndsForTheNextPermit(t *testing.T) {
	const ttl = 3 * time.Second
	server := embedtest.Redis(t)
	options := fresh(0)
	options.Fresh = false
	in, err := newService(t, server.Endpoint(), options).Open(within(t, soon), ttl)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	over, end := context.WithCancel(t.Context())
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for over.Err() == nil {
			_ = in.Renew(over, nil)
			select {
			case <-over.Done():
			case <-time.After(ttl / 8):
			}
		}
	})
	defer renewals.Wait()
	defer end()
	_, err = in.SetRegister(within(t, soon), "/permits", "2 2", 0, driver.Entry{})
	require.NoError(t, err)
	first, second := create(t, in, "/permits", driver.Permit), create(t, in, "/permits", driver.Permit)
	require.Len(t, second.Entries, 1)
	once := sync.OnceFunc(func() {
		_, found, err := in.Delete(within(t, soon), first.Self, nil)
		require.NoError(t, err)
		require.True(t, found)
	})
	ctx := within(t, soon)
	for v := second; len(v.Entries) > 0 && v.Entries[0].Units > 0; {
		_, err := in.Watch(ctx, v.Self, []driver.Target{{Entry: v.Entries[0]}}, once)
		require.NoError(t, err)
		v, err = in.Ahead(ctx, v.Self, true)
		require.NoError(t, err)
	}
}
