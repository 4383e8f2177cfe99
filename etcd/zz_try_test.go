package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
)

func TestTryMany(t *testing.T) {
	noLeaks(t)
	server := embedtest.Etcd(t)
	var sent counter
	store := newStore(t, server.Endpoint(), nil, sent.dial()...)
	_, err := farsync.NewMutex(store, "/many").Lock(t.Context())
	require.NoError(t, err)
	entries, err := store.Entries(t.Context(), "/many")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	const n = 16000
	var all sync.WaitGroup
	sent.since()
	b := time.Now()
	for range n {
		all.Go(func() { _ = store.Wait(ctx, entries[0]) })
	}
	sent.sinceWhen(t, "KV/Range", n)
	t.Log("watching", time.Since(b))
	server.Pause()
	b = time.Now()
	cancel()
	all.Wait()
	t.Log("back", time.Since(b))
	server.Resume()
}
