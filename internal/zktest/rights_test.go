package zktest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

// own gives everything to the user of a Digest.
func own() []client.ACL { return client.DigestACL(client.PermAll, "user", locktest.Secret) }

// as returns options with a user.
func as(user, password string) *zk.Options {
	return &zk.Options{Digest: &zk.Digest{User: user, Password: password}, PlaintextDigest: true}
}

// wrongUsers ask for what belongs to another.
func wrongUsers(t *testing.T, server string) (list []locktest.Input) {
	conn := newConn(t, server)
	require.NoError(t, conn.AddAuth("digest", []byte("user:"+locktest.Secret)))
	for given, options := range map[string]*zk.Options{
		"a wrong password":            as("user", locktest.Secret+"?"),
		"an unknown user":             as("stranger", locktest.Secret),
		"no user where one is needed": {},
	} {
		path := "/misuse/users/" + fmt.Sprint(len(list))
		persistent(t, conn, path)
		_, err := conn.SetACL(path, own(), -1)
		require.NoError(t, err)
		for _, by := range acquirers {
			list = append(list, denied(given+" to "+by.name, path, func(t *testing.T, ctx context.Context, log *slog.Logger) error {
				options := *options
				options.Logger = log
				_, err := by.lock(farsync.NewMutex(newStore(t, server, &options), path), ctx)
				assert.Empty(t, nodes(t, conn, path))
				return err
			}))
		}
	}
	// A stranger could delete a node whatever its own ACL says.
	for name, perms := range map[string]int32{
		"everything": client.PermAll, "DELETE": client.PermDelete, "CREATE": client.PermCreate, "WRITE": client.PermWrite, "ADMIN": client.PermAdmin,
	} {
		path := "/misuse/writable/" + name
		persistent(t, conn, path)
		_, err := conn.SetACL(path, append(client.WorldACL(perms), own()...), -1)
		require.NoError(t, err)
		list = append(list, locktest.Input{
			Given: "a Digest below a node of which all have " + name, Why: "a stranger deletes an entry that is protected, and takes the lock",
			Says: []string{"farsync: lock " + path, fmt.Sprintf("%q can be written to by everybody", path)},
			Call: func(t *testing.T, ctx context.Context, log *slog.Logger) error {
				_, err := farsync.NewMutex(newStore(t, server, as("user", locktest.Secret)), path).Lock(ctx)
				assert.Empty(t, nodes(t, conn, path))
				return err
			},
		})
	}
	path := "/misuse/writable/READ"
	persistent(t, conn, path)
	_, err := conn.SetACL(path, append(client.WorldACL(client.PermRead), own()...), -1)
	require.NoError(t, err)
	require.NoError(t, lock(t, newStore(t, server, as("user", locktest.Secret)), path).Release(), "others may read")
	return list
}

// denied returns a call for which the server says that a right is missing.
func denied(given, path string, call func(*testing.T, context.Context, *slog.Logger) error) locktest.Input {
	return locktest.Input{
		Given: given, Why: "trouble that will not pass by itself must not be waited for, and leaves nothing",
		Call: call, Says: []string{path, "an ACL forbids it to "}, Is: []error{client.ErrNoAuth},
	}
}

// missingRights are those of one operation each.
func missingRights(t *testing.T, server string) (list []locktest.Input) {
	conn := newConn(t, server)
	require.NoError(t, conn.AddAuth("digest", []byte("user:"+locktest.Secret)))
	store := newStore(t, server, nil)
	// on returns a path of which others lack a right.
	on := func(name string, lacking int32) string {
		path := "/misuse/rights/" + strings.ReplaceAll(name, " ", "-")
		persistent(t, conn, path)
		acl := own()
		if left := client.PermAll &^ lacking; left != 0 {
			acl = append(client.WorldACL(left), own()...)
		}
		_, err := conn.SetACL(path, acl, -1)
		require.NoError(t, err)
		return path
	}
	add := func(given, path string, left int, call func(ctx context.Context) error) {
		list = append(list, denied(given, path, func(t *testing.T, ctx context.Context, _ *slog.Logger) error {
			err := call(ctx)
			awaitNodes(t, conn, path, left)
			return err
		}))
	}
	for name, lacking := range map[string]int32{"any": client.PermAll, "CREATE": client.PermCreate, "READ": client.PermRead} {
		for _, by := range acquirers {
			path := on(by.name+" without "+name, lacking)
			add(by.name+" without "+name, path, 0, func(ctx context.Context) error {
				_, err := by.lock(farsync.NewMutex(store, path), ctx)
				return err
			})
		}
	}
	listed := on("Participants without READ", client.PermRead)
	add("Participants without READ", listed, 0, func(ctx context.Context) error {
		_, err := farsync.NewMutex(store, listed).Participants(ctx)
		return err
	})
	register := on("a size without WRITE", client.PermWrite)
	add("a semaphore's size without WRITE", register, 0, func(ctx context.Context) error {
		_, err := farsync.NewSemaphore(store, register, 2).Acquire(ctx, 1)
		return err
	})
	add("Resize without WRITE", register, 0, func(ctx context.Context) error { return farsync.NewSemaphore(store, register, 2).Resize(ctx, 3) })

	// An entry ahead that is another's alone: it can neither be watched nor told.
	watched, told := on("a watch without READ", 0), on("Ask without WRITE", 0)
	for path, others := range map[string]int32{watched: 0, told: client.PermRead} {
		acl := own()
		if others != 0 {
			acl = append(client.WorldACL(others), own()...)
		}
		_, err := conn.Create(path+"/!other-", nil, client.FlagEphemeralSequential, acl)
		require.NoError(t, err)
	}
	add("a watch without READ", watched, 1, func(ctx context.Context) error {
		_, err := farsync.NewMutex(store, watched).Lock(ctx)
		return err
	})
	add("Ask without WRITE", told, 1, func(ctx context.Context) error { return farsync.NewMutex(store, told).Ask(ctx) })

	deleted := on("Release without DELETE", client.PermDelete)
	add("Release without DELETE", deleted, 0, func(ctx context.Context) error {
		short, err := zk.Open(ctx, []string{server}, nil)
		require.NoError(t, err)
		lease, err := farsync.NewMutex(short, deleted).Lock(ctx)
		require.NoError(t, err)
		err = lease.Release()
		require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
		require.NoError(t, short.Close(), "what may be made and not be deleted goes with the session")
		return err
	})

	ephemeral := "/misuse/rights/ephemeral"
	_, err := conn.Create(ephemeral, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	in := denied("an ephemeral node in the place of a queue", ephemeral, func(_ *testing.T, ctx context.Context, _ *slog.Logger) error {
		_, err := farsync.NewMutex(store, ephemeral).Lock(ctx)
		return err
	})
	in.Says, in.Is = []string{ephemeral, "ephemeral nodes may not have children"}, []error{client.ErrNoChildrenForEphemerals}
	return append(list, in)
}
