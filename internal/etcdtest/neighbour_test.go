package etcdtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// denies expects the server to refuse requests for want of a right.
func denies(t testing.TB, requests map[string]func(context.Context) error) {
	t.Helper()
	for name, request := range requests {
		require.ErrorIs(t, request(within(t, soon)), rpctypes.ErrPermissionDenied, name)
	}
}

// changes are requests that would each change who holds what.
func changes(c *clientv3.Client, path, key string, lease clientv3.LeaseID) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"delete":         func(ctx context.Context) error { _, err := c.Delete(ctx, key); return err },
		"delete all":     func(ctx context.Context) error { _, err := c.Delete(ctx, "", clientv3.WithPrefix()); return err },
		"put":            func(ctx context.Context) error { _, err := c.Put(ctx, path+"/m-x", ""); return err },
		"put the holder": func(ctx context.Context) error { _, err := c.Put(ctx, key, "", clientv3.WithLease(lease)); return err },
		"put a turn":     func(ctx context.Context) error { _, err := c.Put(ctx, path+"!turn/t1.1", ""); return err },
		"put a size":     func(ctx context.Context) error { _, err := c.Put(ctx, path+"!size/units", "9 9"); return err },
		"ask":            func(ctx context.Context) error { _, err := c.Put(ctx, path+"!ask/m-x", ""); return err },
		"in a Txn": func(ctx context.Context) error {
			_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision("/theirs/x"), "=", 0)).Then(clientv3.OpDelete(key)).Commit()
			return err
		},
		"revoke": func(ctx context.Context) error { _, err := c.Revoke(ctx, lease); return err },
	}
}

// TestNeighbourWithOtherRights, on another prefix, can change nothing, read nothing, and keep no lease of a process
// that has died.
func TestNeighbourWithOtherRights(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	r.user("neighbour", "/theirs/", clientv3.PermReadWrite)
	n := r.as("neighbour")
	store := storeOn(t, r.as("writer"), ttl(time.Minute))
	lease := lock(t, store, "/locks/mine")
	keys := keysOf(t, r.root, "/locks/mine")
	require.Len(t, keys, 1)
	key, id := string(keys[0].Key), clientv3.LeaseID(keys[0].Lease)
	denies(t, changes(n, "/locks/mine", key, id))
	denies(t, map[string]func(context.Context) error{
		"get": func(ctx context.Context) error { _, err := n.Get(ctx, key); return err },
		"keys": func(ctx context.Context) error {
			_, err := n.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
			return err
		},
		"watch": func(ctx context.Context) error {
			seen := <-n.Watch(ctx, key)
			err := seen.Err()
			if err != nil && strings.Contains(err.Error(), "permission denied") {
				return rpctypes.ErrPermissionDenied
			}
			return err
		},
		"leases":     func(ctx context.Context) error { _, err := n.Leases(ctx); return err },
		"renew":      func(ctx context.Context) error { _, err := n.KeepAliveOnce(ctx, id); return err },
		"defragment": func(ctx context.Context) error { _, err := n.Defragment(ctx, server.Endpoint()); return err },
	})
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	require.NoError(t, lock(t, store, "/locks/mine").Release())
}

// TestNeighbourWhoMayReadAlone sees the names of holders.
func TestNeighbourWhoMayReadAlone(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	r.grant("reader", "/", authpb.READ)
	n := r.as("reader")
	options := ttl(time.Minute)
	options.Holder = "somebody"
	lease := lock(t, storeOn(t, r.as("writer"), options), "/locks/mine")
	keys := keysOf(t, n, "/locks/mine")
	require.Len(t, keys, 1)
	require.Contains(t, string(keys[0].Value), "somebody")
	denies(t, changes(n, "/locks/mine", string(keys[0].Key), clientv3.LeaseID(keys[0].Lease)))
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}
