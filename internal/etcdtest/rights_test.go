package etcdtest_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
)

// TestMisuseOfRights gives users that are not known, and rights that do not suffice. READWRITE on a prefix is enough.
func TestMisuseOfRights(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	locktest.RunInputs(t, slices.Concat(r.wrongUsers(), r.missingRights(), r.rightsTakenAway()))

	ctx := within(t, soon)
	store := storeOn(t, r.as("writer"), nil)
	mu := farsync.NewMutex(store, "/locks/enough")
	lease, err := mu.Lock(ctx)
	require.NoError(t, err)
	waiter := lockBehind(t, storeOn(t, r.as("writer"), nil), "/locks/enough")
	awaitQueue(t, store, "/locks/enough", 2)
	_, err = farsync.NewMutex(storeOn(t, r.as("reader"), nil), "/locks/enough").TryLock(ctx)
	require.ErrorIs(t, err, farsync.ErrLocked, "a reader sees that it is taken")
	first := lease.Deadline()
	awaitQueue(t, store, "/locks/enough", 2)
	require.Eventually(t, func() bool { return lease.Deadline().After(first) }, soon, time.Millisecond, "renewed")
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, waiter).Release())
	list, err := store.Participants(ctx, "/locks/enough")
	require.NoError(t, err)
	require.Empty(t, list)
	held, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.ErrorIs(t, held.Err(), farsync.ErrClosed)
	require.Empty(t, keysOf(t, r.root, "/locks/enough"), "Close may revoke")
}

// TestAuthenticationIsSwitchedOnMeanwhile: clients that had their user before go on. A stream of theirs keeps the credentials that it was opened
// with, which were none.
func TestAuthenticationIsSwitchedOnMeanwhile(t *testing.T) {
	server, admin := beginAlone(t)
	r := newRealm(t, server, admin)
	r.must(r.root.AuthDisable(t.Context()))
	var stores [4]*farsync.Store
	for i := range stores {
		stores[i] = storeOn(t, r.as("writer"), ttl(time.Minute))
	}
	const path = "/locks/meanwhile"
	first := lock(t, stores[0], path)
	second := lockBehind(t, stores[1], path)
	awaitQueue(t, stores[0], path, 2)
	ctx, giveUp := context.WithCancel(within(t, soon))
	gaveUp := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(stores[2], path).Lock(ctx)
		gaveUp <- err
	}()
	awaitQueue(t, stores[0], path, 3)
	fourth := lockBehind(t, stores[3], path)
	awaitQueue(t, stores[0], path, 4)
	r.must(admin.AuthEnable(t.Context()))
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	awaitQueue(t, stores[0], path, 3)
	require.NoError(t, first.Release())
	require.NoError(t, got(t, second).Release())
	require.NoError(t, got(t, fourth).Release())
	require.Empty(t, keysOf(t, r.root, path))
}

// A realm is a server with authentication on.
type realm struct {
	*testing.T
	server *embedtest.EtcdServer
	root   *clientv3.Client
}

// newRealm turns authentication on, until t ends. Users have roles of their own names.
func newRealm(t *testing.T, server *embedtest.EtcdServer, admin *clientv3.Client) realm {
	r := realm{t, server, admin}
	r.user("writer", "/locks/", clientv3.PermReadWrite)
	r.user("reader", "/locks/", clientv3.PermRead)
	r.user("narrow", "/locks/narrow/", clientv3.PermReadWrite)
	for _, user := range []string{"leaver", "waiter"} {
		r.user(user, "/locks/"+user, clientv3.PermReadWrite)
	}
	for _, user := range []string{"stranger", "changed", "gone", "root"} {
		r.must(admin.UserAdd(t.Context(), user, locktest.Secret))
	}
	r.must(admin.UserGrantRole(t.Context(), "root", "root"))
	r.must(admin.AuthEnable(t.Context()))
	r.root = r.as("root")
	t.Cleanup(func() { r.must(r.root.AuthDisable(context.WithoutCancel(t.Context()))) })
	return r
}

func (r realm) must(_ any, err error) {
	r.Helper()
	require.NoError(r, err)
}

// user makes a user that may do that with the keys that begin with prefix.
func (r realm) user(name, prefix string, may authpb.Permission_Type) {
	r.must(r.root.RoleAdd(r.Context(), name))
	r.grant(name, prefix, may)
	r.must(r.root.UserAdd(r.Context(), name, locktest.Secret))
	r.must(r.root.UserGrantRole(r.Context(), name, name))
}

// grant gives a role that right, and takes all others to these keys.
func (r realm) grant(role, prefix string, may authpb.Permission_Type) {
	r.must(r.root.RoleGrantPermission(r.Context(), role, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(may)))
}

// as returns a client of a user.
func (r realm) as(user string, options ...grpc.DialOption) *clientv3.Client {
	return clientOf(r, clientv3.Config{
		Endpoints: []string{r.server.Endpoint()}, Username: user, Password: locktest.Secret, DialOptions: options,
	})
}

const whyDenied = "trouble that does not pass by itself must not be waited for, and leaves nothing"

// denied returns a call for which a right is missing.
func denied(given, path, user string, call func(*testing.T, context.Context) error) locktest.Input {
	return locktest.Input{
		Given: given, Why: whyDenied, Says: []string{path, "permission denied", `user "` + user + `" needs READWRITE`},
		Is:   []error{rpctypes.ErrPermissionDenied},
		Call: func(t *testing.T, ctx context.Context, _ *slog.Logger) error { return call(t, ctx) },
	}
}

func (r realm) wrongUsers() []locktest.Input {
	changed, gone := r.as("changed"), r.as("gone")
	r.must(r.root.UserChangePassword(r.Context(), "changed", "another"))
	r.must(r.root.UserDelete(r.Context(), "gone"))
	nobody := newClient(r, r.server.Endpoint())
	return []locktest.Input{
		{
			Given: "a wrong password", Why: whyDenied, Call: opening(changed),
			Says: []string{opens, "authentication failed", "endpoints " + r.server.Endpoint()}, Is: []error{rpctypes.ErrAuthFailed},
		},
		{
			Given: "an unknown user", Why: whyDenied, Call: opening(gone),
			Says: []string{opens, "authentication failed", "endpoints " + r.server.Endpoint()}, Is: []error{rpctypes.ErrAuthFailed},
		},
		{
			Given: "no user where one is needed", Why: whyDenied, Call: opening(nobody),
			Says: []string{opens, "user name is empty", "the client has no Username"}, Is: []error{rpctypes.ErrUserEmpty},
		},
	}
}

// missingRights are those that a user never had.
func (r realm) missingRights() (list []locktest.Input) {
	for _, row := range []struct{ user, path string }{
		{"stranger", "/locks/a"}, {"reader", "/locks/a"}, {"writer", "/elsewhere/a"}, {"narrow", "/locks/narro"},
	} {
		for _, by := range acquirers {
			list = append(list, denied(by.name+" of "+row.path+" by "+row.user, row.path, row.user, func(t *testing.T, ctx context.Context) error {
				_, err := by.lock(farsync.NewMutex(storeOn(t, r.as(row.user), nil), row.path), ctx)
				assert.Empty(t, keysOf(t, r.root, row.path))
				return err
			}))
		}
	}
	const path = "/locks/narrow"
	semaphore := func(t *testing.T, user string) *farsync.Semaphore {
		return farsync.NewSemaphore(storeOn(t, r.as(user), nil), path, 2)
	}
	return append(list,
		denied("Participants by stranger", path, "stranger", func(t *testing.T, ctx context.Context) error {
			_, err := storeOn(t, r.as("stranger"), nil).Participants(ctx, path)
			return err
		}),
		denied("Resize by reader", path, "reader", func(t *testing.T, ctx context.Context) error { return semaphore(t, "reader").Resize(ctx, 3) }),
		denied("Acquire where the size is not allowed for", path, "narrow", func(t *testing.T, ctx context.Context) error {
			_, err := semaphore(t, "narrow").Acquire(ctx, 1)
			return err
		}),
		denied("Ask where only the queue is allowed for", path+"/asked", "reader", func(t *testing.T, ctx context.Context) error {
			holder := lock(t, storeOn(t, r.as("writer"), nil), path+"/asked")
			err := storeOn(t, r.as("reader"), nil).Ask(ctx, path+"/asked")
			require.NoError(t, holder.Release())
			return err
		}),
	)
}

// rightsTakenAway are those that are gone when they are needed again.
func (r realm) rightsTakenAway() []locktest.Input {
	return []locktest.Input{
		denied("Release by leaver", "/locks/leaver", "leaver", func(t *testing.T, ctx context.Context) error {
			store := storeOn(t, r.as("leaver"), nil)
			lease := lock(t, store, "/locks/leaver")
			r.grant("leaver", "/locks/leaver", clientv3.PermRead)
			err := lease.Release()
			require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
			r.grant("leaver", "/locks/leaver", clientv3.PermReadWrite)
			awaitKeys(t, r.root, "/locks/leaver", 0)
			return err
		}),
		denied("a watch by waiter", "/locks/waiter", "waiter", func(t *testing.T, ctx context.Context) error {
			holder := lock(t, storeOn(t, r.as("writer"), nil), "/locks/waiter")
			// The right is gone once the entry has joined.
			store := storeOn(t, r.as("waiter", grpc.WithChainStreamInterceptor(func(
				ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
			) (grpc.ClientStream, error) {
				if method == "/etcdserverpb.Watch/Watch" {
					r.grant("waiter", "/locks/waiter", clientv3.PermWrite)
				}
				return open(ctx, desc, cc, method, options...)
			})), nil)
			_, err := farsync.NewMutex(store, "/locks/waiter").Lock(ctx)
			require.NoError(t, holder.Release())
			awaitKeys(t, r.root, "/locks/waiter", 0)
			return err
		}),
	}
}
