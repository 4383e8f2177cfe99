package zktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/zk"
)

// TestGrantedTimeoutCounts: the server moves what is asked for into its own bounds.
func TestGrantedTimeoutCounts(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	for asked, granted := range map[time.Duration]time.Duration{
		time.Second:     time.Second, // two ticks
		24 * time.Hour:  40 * time.Second,
		3 * time.Second: 3 * time.Second,
	} {
		begun := time.Now()
		store := newStore(t, server.Endpoint(), withTTL(asked))
		lease := lock(t, store, "/open/granted")
		require.WithinRange(t, lease.Deadline(), begun, time.Now().Add(granted))
		require.NoError(t, lease.Release())
	}
}

func TestNamespaceIsPutInFront(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), &zk.Options{Namespace: "/open/namespace"})
	lease := lock(t, store, "/lock")
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, "/open/namespace/lock"))
	_, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/open/namespace/lock").TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	list, err := farsync.NewMutex(store, "/lock").Participants(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, lease.Release())
}

// TestDigestProtectsEntriesAndTheirQueue: who may delete a node is a matter of its parent's ACL.
func TestDigestProtectsEntriesAndTheirQueue(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	stranger, friend := newConn(t, server.Endpoint()), newConn(t, server.Endpoint())
	require.NoError(t, friend.AddAuth("digest", []byte("user:password")))
	store := newTapped(t, &zk.Options{
		Digest: &zk.Digest{User: "user", Password: "password"}, PlaintextDigest: true, Namespace: "/open/digest",
	})
	lease := lock(t, store.Store, "/team/lock")
	node := nodeOf(t, lease)
	only := client.DigestACL(client.PermAll, "user", "password")
	for path, want := range map[string][]client.ACL{
		"/open/digest/team":      client.WorldACL(client.PermAll), // others may have queues there
		"/open/digest/team/lock": only, node: only,
	} {
		acl, _, err := friend.GetACL(path)
		require.NoError(t, err)
		require.Equal(t, want, acl, path)
	}
	require.ErrorIs(t, stranger.Delete(node, -1), client.ErrNoAuth)
	_, err := stranger.Set(node, nil, -1)
	require.ErrorIs(t, err, client.ErrNoAuth)
	_, err = farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/open/digest/team/lock").Lock(within(t, soon))
	require.ErrorIs(t, err, client.ErrNoAuth)
	waiter := lockBehind(t, store.Store, "/team/lock")
	store.tap.await(t, opGetData, 1)
	store.tap.sever() // the next connection is told who it is, too
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, waiter).Release())
}

func TestDigestIsNeverPrinted(t *testing.T) {
	const secret = "s3cr3t"
	digest := zk.Digest{User: "somebody", Password: secret}
	options := zk.Options{Digest: &digest, PlaintextDigest: true}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{digest, &digest, options, &options, []zk.Digest{digest}, struct{ D zk.Digest }{digest}} {
			fmt.Fprintf(&out, verb, value)
		}
	}
	for _, log := range []*slog.Logger{
		slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil)),
	} {
		log.Info("open", "digest", digest, "pointer", &digest, "options", options, "pointer", &options)
	}
	text, err := json.Marshal(struct{ Digest *zk.Digest }{&digest})
	require.NoError(t, err)
	out.Write(text)
	require.NotContains(t, out.String(), secret)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", secret))
	require.Contains(t, out.String(), "somebody")
}
