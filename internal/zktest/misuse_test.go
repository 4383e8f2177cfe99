package zktest

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// TestMisuse gives what is wrong, of servers, certificates, options, users and rights.
func TestMisuse(t *testing.T) {
	server, conn := begin(t)
	require.NoError(t, conn.AddAuth("digest", []byte("user:"+locktest.Secret)))
	// Without a ctx, it is the first attempt that has to find out what is wrong with a certificate, and it has five seconds.
	withoutCtx := suite.More(t, suite.ZooKeeper)
	locktest.RunInputs(t, slices.Concat(
		wrongServers(t), wrongTLS(t, server, withoutCtx), wrongOptions(), wrongUsers(t, server, conn), missingRights(t, server, conn),
	))
}

func TestMisuseOfEveryStore(t *testing.T) {
	server, _ := begin(t)
	locktest.Mistaken{Open: func(ctx context.Context, options farsync.Options) (*farsync.Store, error) {
		return zk.Open(ctx, []string{server}, &zk.Options{Options: options})
	}, Opens: opens}.Run(t)
}

const opens = "farsync: open ZooKeeper: "

// opening returns an Open that must fail.
func opening(servers []string, options zk.Options) func(*testing.T, context.Context, *slog.Logger) error {
	return func(t *testing.T, ctx context.Context, log *slog.Logger) error {
		if _, limited := ctx.Deadline(); !limited {
			suite.Timed(t, 200*time.Millisecond) // Open finds the cause within its own time, or names none
		}
		options := options
		options.Logger = log
		store, err := zk.Open(ctx, servers, &options)
		if err == nil {
			_ = store.Close()
		}
		return err
	}
}

// unanswered returns an Open that no server answers, with a ctx that ends, and without.
func unanswered(given string, within time.Duration, server string, options zk.Options, says ...string) []locktest.Input {
	in := locktest.Input{
		Given: given + ", and no ctx", Why: "the words are all that there is to find out why the program does not start",
		Call: opening([]string{server}, options), Says: append(says, opens, "the service does not answer", server),
		Is: []error{farsync.ErrUnavailable}, Never: []string{context.DeadlineExceeded.Error()},
	}
	brief := in
	brief.Given, brief.Within, brief.Never = given, within, nil
	brief.Is = append(brief.Is, context.DeadlineExceeded)
	brief.Says = in.Says[len(says):] // on a busy machine the cause may take longer than such a ctx to show
	return []locktest.Input{brief, in}
}

func wrongServers(t *testing.T) (list []locktest.Input) {
	silent := locktest.Speaking(t, "")
	for given, row := range map[string]struct {
		server string
		says   []string
	}{
		"a port at which nothing listens": {locktest.Refusing(t), []string{"connection refused"}},
		"a name that does not resolve":    {"host.invalid:2181", []string{"lookup host.invalid"}},
		"a server that says nothing":      {silent, []string{"i/o timeout", "no answer from any of [" + silent}},
		"a server of HTTP":                {locktest.Speaking(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), []string{"a frame that is none", "is it ZooKeeper?"}},
		"a server of SSH":                 {locktest.Speaking(t, "SSH-2.0-OpenSSH_9.2\r\n"), []string{"a frame that is none", "is it ZooKeeper?"}},
	} {
		list = append(list, unanswered(given, 500*time.Millisecond, row.server, *withTTL(time.Second), row.says...)...)
	}
	return list
}

func wrongTLS(t *testing.T, plain string, withoutCtx bool) (list []locktest.Input) {
	right, wrong := locktest.Secure(t, plain)
	long := farsync.Options{TTL: time.Hour} // an attempt may take a sixth of it: the first has all the time that Open has
	with := func(config *tls.Config) zk.Options {
		if config == nil {
			return zk.Options{Options: long}
		}
		return zk.Options{Options: long, TLS: config, Digest: &zk.Digest{User: "user", Password: locktest.Secret}}
	}
	for _, row := range right {
		options := with(row.TLS)
		store := storeOn(t, []string{row.Host}, &options)
		require.NoError(t, lock(t, store, "/misuse/tls").Release())
		require.NoError(t, store.Close())
	}
	for _, row := range append(wrong, locktest.Secured{
		Given: "TLS to a server that says nothing", Host: locktest.Speaking(t, ""), TLS: right[0].TLS, Says: "no answer from any of",
	}) {
		switch {
		case row.TLS == nil:
			row.Says = "the server hangs up; it wants TLS"
		case row.Host == plain:
			row.Says = "does it speak TLS"
		}
		inputs := unanswered(row.Given, time.Second, row.Host, with(row.TLS), row.Says)
		if !withoutCtx {
			inputs = inputs[:1]
		}
		list = append(list, inputs...)
	}
	return list
}

// wrongOptions are refused by an Open that asks no server.
func wrongOptions() (list []locktest.Input) {
	refused := func(given, server string, options zk.Options, is []error, says ...string) {
		servers := []string{"127.0.0.1:1", server}
		if given == "no servers" {
			servers = nil
		}
		list = append(list, locktest.Input{
			Given: given, Why: "a mistake in a configuration is found at once, and the message names the part of it",
			Call: opening(servers, options), Says: append(says, "farsync: open"), Is: is,
		})
	}
	const good = "127.0.0.1:2"
	refused("no servers", "", zk.Options{}, nil, "no servers")
	refused("a server with a password", "zk://user:"+locktest.Secret+"@host:2181", zk.Options{}, nil, `server "…@host:2181" is not host:port`)
	for _, server := range []string{
		"", ":", ":2181", "host:", "host:port", "host:0", "host:-1", "host:65536", "http://host:2181", "host:2181/chroot",
		"host/chroot", "a:b:2181", "[::1", "one,two", "one:2181,two:2181",
	} {
		refused(fmt.Sprintf("the server %q", server), server, zk.Options{}, nil, fmt.Sprintf("server %q is not host:port", server))
	}
	for namespace, says := range map[string]string{
		"relative": "no leading slash", "/trailing/": "empty segment", "/": "empty segment", "/a/../b": "relative segment",
		"/zookeeper": "/zookeeper is reserved",
	} {
		refused("the namespace "+namespace, good, zk.Options{Namespace: namespace}, []error{farsync.ErrPath}, "option Namespace", says)
	}
	readable := *as("user", locktest.Secret)
	readable.PlaintextDigest = false
	refused("a Digest in the clear", good, readable, nil, "set PlaintextDigest if that is meant")
	for user, says := range map[string]string{"": "Digest needs a User", "us:er": "without a colon", ":": "without a colon"} {
		refused(fmt.Sprintf("a Digest of the user %q", user), good, *as(user, locktest.Secret), nil, says)
	}
	return list
}

// own gives everything to the user of a Digest.
func own() []client.ACL { return client.DigestACL(client.PermAll, "user", locktest.Secret) }

// wrongUsers ask for what belongs to another.
func wrongUsers(t *testing.T, server string, conn *client.Conn) (list []locktest.Input) {
	for given, options := range map[string]*zk.Options{
		"a wrong password":            as("user", locktest.Secret+"?"),
		"an unknown user":             as("stranger", locktest.Secret),
		"no user where one is needed": {},
	} {
		path := "/misuse/users/" + fmt.Sprint(len(list))
		persistent(t, conn, path)
		restrict(t, conn, path, own(), 0)
		list = append(list, denied(given, path, func(t *testing.T, ctx context.Context, log *slog.Logger) error {
			options := *options
			options.Logger = log
			_, err := farsync.NewMutex(newStore(t, server, &options), path).Lock(ctx)
			assert.Empty(t, nodes(t, conn, path))
			return err
		}))
	}
	// A stranger could delete a node whatever its own ACL says.
	for name, perms := range map[string]int32{
		"everything": client.PermAll, "DELETE": client.PermDelete, "CREATE": client.PermCreate, "WRITE": client.PermWrite,
		"ADMIN": client.PermAdmin, "READ": client.PermRead,
	} {
		path := "/misuse/writable/" + name
		persistent(t, conn, path)
		restrict(t, conn, path, own(), perms)
		if perms == client.PermRead {
			require.NoError(t, lock(t, newStore(t, server, as("user", locktest.Secret)), path).Release(), "others may read")
			continue
		}
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
func missingRights(t *testing.T, server string, conn *client.Conn) (list []locktest.Input) {
	store := newStore(t, server, nil)
	// on returns a path of which others lack a right.
	on := func(name string, lacking int32) string {
		path := "/misuse/rights/" + strings.ReplaceAll(name, " ", "-")
		persistent(t, conn, path)
		restrict(t, conn, path, own(), client.PermAll&^lacking)
		return path
	}
	add := func(given, path string, left int, call func(ctx context.Context, mu *farsync.Mutex) error) {
		list = append(list, denied(given, path, func(t *testing.T, ctx context.Context, _ *slog.Logger) error {
			err := call(ctx, farsync.NewMutex(store, path))
			awaitNodes(t, conn, path, left)
			return err
		}))
	}
	locking := func(ctx context.Context, mu *farsync.Mutex) error { _, err := mu.Lock(ctx); return err }
	trying := func(ctx context.Context, mu *farsync.Mutex) error { _, err := mu.TryLock(ctx); return err }
	for name, lacking := range map[string]int32{"any": client.PermAll, "CREATE": client.PermCreate, "READ": client.PermRead} {
		add("Lock without "+name, on("Lock without "+name, lacking), 0, locking)
		add("TryLock without "+name, on("TryLock without "+name, lacking), 0, trying)
	}
	unread := on("Participants without READ", client.PermRead)
	add("Participants without READ", unread, 0, func(ctx context.Context, _ *farsync.Mutex) error {
		_, err := store.Participants(ctx, unread)
		return err
	})
	register := on("a size without WRITE", client.PermWrite)
	add("a semaphore's size without WRITE", register, 0, func(ctx context.Context, _ *farsync.Mutex) error {
		_, err := farsync.NewSemaphore(store, register, 2).Acquire(ctx, 1)
		return err
	})
	add("Resize without WRITE", register, 0, func(ctx context.Context, _ *farsync.Mutex) error {
		return farsync.NewSemaphore(store, register, 2).Resize(ctx, 3)
	})

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
	add("a watch without READ", watched, 1, locking)
	add("Ask without WRITE", told, 1, func(ctx context.Context, _ *farsync.Mutex) error { return store.Ask(ctx, told) })

	deleted := on("Release without DELETE", client.PermDelete)
	add("Release without DELETE", deleted, 0, func(ctx context.Context, _ *farsync.Mutex) error {
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
		return locking(ctx, farsync.NewMutex(store, ephemeral))
	})
	in.Says, in.Is = []string{ephemeral, "ephemeral nodes may not have children"}, []error{client.ErrNoChildrenForEphemerals}
	return append(list, in)
}
