//go:build unix

package docstest_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/mysqlkind"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

const password = "correct-horse"

// least returns the commands of the document that begin with a program.
func least(t *testing.T, program string) string {
	t.Helper()
	for i, part := range strings.Split("\n"+document(t, "docs/SECURITY.md"), "\n```") {
		if body, ok := strings.CutPrefix(part, "sh\n"); ok && i%2 == 1 && strings.Contains(body, program) {
			return body
		}
	}
	require.FailNow(t, "the document has no commands", program)
	return ""
}

// everything uses each primitive below /locks/ in a way that needs all rights that it ever needs: with a waiter that is served.
func everything(t *testing.T, open func() *farsync.Store) {
	t.Helper()
	ctx := within(t, soon)
	first, second := open(), open()
	serve := func(name string, take func(store *farsync.Store) (*farsync.Lease, error)) {
		lease, err := take(first)
		require.NoError(t, err, name)
		next := make(chan error, 1)
		go func() { // joined below
			lease, err := take(second)
			if err == nil {
				err = lease.Release()
			}
			next <- err
		}()
		for list := 0; list < 2; { // until the second waits
			all, err := first.Participants(ctx, "/locks/"+name)
			require.NoError(t, err, name)
			list = len(all)
		}
		require.NoError(t, first.Ask(ctx, "/locks/"+name), name)
		<-lease.Asked()
		require.NoError(t, lease.Release(), name)
		require.NoError(t, <-next, name)
	}
	serve("mutex", func(s *farsync.Store) (*farsync.Lease, error) { return farsync.NewMutex(s, "/locks/mutex").Lock(ctx) })
	serve("rw", func(s *farsync.Store) (*farsync.Lease, error) { return farsync.NewRWMutex(s, "/locks/rw").Lock(ctx) })
	serve("semaphore", func(s *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewSemaphore(s, "/locks/semaphore", 2).Acquire(ctx, 2)
	})
	serve("election", func(s *farsync.Store) (*farsync.Lease, error) {
		return farsync.NewElection(s, "/locks/election").Campaign(ctx, "")
	})
	rw := farsync.NewRWMutex(first, "/locks/rw")
	writer, err := rw.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, rw.Downgrade(ctx, writer))
	reader, err := farsync.NewRWMutex(second, "/locks/rw").RLock(ctx)
	require.NoError(t, err)
	require.NoError(t, reader.Release())
	require.NoError(t, writer.Release())
	require.NoError(t, farsync.NewSemaphore(first, "/locks/semaphore", 2).Resize(ctx, 3))
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

// asAdmin runs commands of the page, which are told the password of the users that they make, and returns what they print.
func asAdmin(t *testing.T, script string) string {
	t.Helper()
	shell := exec.Command("sh", "-ec", script)
	shell.Env = append(os.Environ(), "PASSWORD="+password)
	return run(t, shell, "")
}

// useOnce locks and releases by a Store of its own. What the right to delete is missing for stays there until the Store's session has run out, so each
// right has a path of its own.
func useOnce(t *testing.T, open func() (*farsync.Store, error), path string) error {
	t.Helper()
	store, err := open()
	if err != nil {
		return err
	}
	defer store.Close()
	lease, err := farsync.NewMutex(store, path).Lock(within(t, soon))
	if err != nil {
		return err
	}
	return lease.Release()
}

func TestLeastRightsOnRedis(t *testing.T) {
	server := embedtest.Redis(t)
	_, port, err := net.SplitHostPort(server.Endpoint())
	require.NoError(t, err)
	require.Equal(t, "OK", asAdmin(t, strings.ReplaceAll(least(t, "redis-cli"), "redis-cli ", "redis-cli -e -p "+port+" ")))
	to := &goredis.UniversalOptions{Addrs: []string{server.Endpoint()}, Username: "billing", Password: password}
	everything(t, func() *farsync.Store {
		store, err := redis.Open(within(t, soon), to, &redis.Options{Fresh: true})
		require.NoError(t, err)
		return store
	})
	_, err = redis.Open(within(t, soon), to, &redis.Options{Namespace: "another"})
	require.ErrorContains(t, err, "NOPERM", "another namespace is out of reach")
}

// TestLeastRightsOnPostgreSQL: with the commands of the page, and with one right less.
func TestLeastRightsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := embedtest.Postgres(t)
	client := "psql -qX -v ON_ERROR_STOP=1 '" + server.URL() + "' "
	sh := func(script string) { asAdmin(t, strings.ReplaceAll(script, "psql ", client)) }
	as := func(user string) *pgxpool.Config {
		config, err := pgxpool.ParseConfig(server.URL())
		require.NoError(t, err)
		config.ConnConfig.User, config.ConnConfig.RuntimeParams["search_path"] = user, "locks"
		return config
	}
	sh(least(t, "psql"))
	require.NoError(t, postgres.Migrate(within(t, soon), as("deploy").ConnConfig))
	require.NoError(t, postgres.Migrate(within(t, soon), as("deploy").ConnConfig))
	require.ErrorContains(t, postgres.Migrate(within(t, soon), as("billing").ConnConfig), "denied")
	open := func() (*farsync.Store, error) { return postgres.Open(within(t, soon), as("billing"), nil) }
	everything(t, func() *farsync.Store {
		store, err := open()
		require.NoError(t, err)
		return store
	})
	use := func(path string) error { return useOnce(t, open, path) }

	for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
		sh(`psql -c "REVOKE ` + right + ` ON ALL TABLES IN SCHEMA locks FROM billing"`)
		require.ErrorContains(t, use("/locks/"+right), "denied", right)
		sh(`psql -c "GRANT ` + right + ` ON ALL TABLES IN SCHEMA locks TO billing"`)
	}
	sh(`psql -c "REVOKE USAGE ON SCHEMA locks FROM billing"`)
	require.Error(t, use("/locks/usage"))
	sh(`psql -c "GRANT USAGE ON SCHEMA locks TO billing" -c "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA locks FROM PUBLIC"`)
	require.ErrorContains(t, use("/locks/execute"), "denied")
	said := regexp.MustCompile("`(GRANT EXECUTE [^`]*)`").FindStringSubmatch(document(t, "docs/SECURITY.md"))
	require.Len(t, said, 2)
	sh(`psql -c "` + said[1] + `"`)
	require.NoError(t, use("/locks/all"))
}

// TestLeastRightsOnMySQL, and on MariaDB: with each of the rights and with one less.
func TestLeastRightsOnMySQL(t *testing.T) {
	t.Parallel()
	server := mysqlkind.Start(t)
	host, port, err := net.SplitHostPort(server.Endpoint())
	require.NoError(t, err)
	client := "mariadb --no-defaults -h " + host + " -P " + port + " -u root "
	sh := func(script string) { asAdmin(t, strings.ReplaceAll(script, "mariadb ", client)) }
	sh("mariadb -e 'CREATE DATABASE locks'\n" + least(t, "mariadb"))
	as := func(user string) string { return user + ":" + password + "@tcp(" + server.Endpoint() + ")/locks" }
	open := func() (*farsync.Store, error) { return mysql.Open(within(t, soon), as("billing"), nil) }
	for _, right := range []string{"CREATE", "CREATE ROUTINE"} {
		sh("mariadb -e 'REVOKE " + right + " ON locks.* FROM deploy'")
		require.ErrorContains(t, mysql.Migrate(within(t, soon), as("deploy")), "denied", right)
		sh("mariadb -e 'GRANT " + right + " ON locks.* TO deploy'")
	}
	require.NoError(t, mysql.Migrate(within(t, soon), as("deploy")))
	require.NoError(t, mysql.Migrate(within(t, soon), as("deploy")))
	everything(t, func() *farsync.Store {
		store, err := open()
		require.NoError(t, err)
		return store
	})
	use := func(path string) error { return useOnce(t, open, path) }

	for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "EXECUTE"} {
		sh("mariadb -e 'REVOKE " + right + " ON locks.* FROM billing'")
		require.ErrorContains(t, use("/locks/"+right), "denied", right)
		sh("mariadb -e 'GRANT " + right + " ON locks.* TO billing'")
	}
	require.NoError(t, use("/locks/all"))
}

func TestLeastRightsOnZooKeeper(t *testing.T) {
	t.Parallel()
	server := embedtest.ZooKeeper(t)
	cli, err := exec.LookPath("zkCli.sh")
	if err != nil {
		cli = "/usr/share/zookeeper/bin/zkCli.sh" // Debian's package
	}
	shell := exec.Command("sh", "-c", strings.Replace(least(t, "zkCli.sh"), "zkCli.sh", cli, 1))
	shell.Env = append(os.Environ(), "PASSWORD="+password, "SERVER="+server.Endpoint())
	run(t, shell, "")
	everything(t, func() *farsync.Store {
		store, err := zk.Open(within(t, soon), []string{server.Endpoint()}, &zk.Options{
			Digest: &zk.Digest{User: "billing", Password: password}, PlaintextDigest: true, // there is no network in between
		})
		require.NoError(t, err)
		return store
	})
	stranger, events, err := zookeeper.Connect([]string{server.Endpoint()}, soon, zookeeper.WithLogInfo(false))
	require.NoError(t, err)
	defer func() {
		stranger.Close()
		for range events { // until it has ended
		}
	}()
	_, err = stranger.Create("/locks/strange", nil, 0, zookeeper.WorldACL(zookeeper.PermAll))
	require.ErrorIs(t, err, zookeeper.ErrNoAuth)
	require.ErrorIs(t, stranger.Delete("/locks/semaphore", -1), zookeeper.ErrNoAuth)
}

// TestLeastRightsOnEtcd grants what the commands grant: etcdctl is not at hand everywhere.
func TestLeastRightsOnEtcd(t *testing.T) {
	t.Parallel()
	granted := regexp.MustCompile(`--prefix=true billing readwrite (\S+)\n`).FindStringSubmatch(least(t, "etcdctl"))
	require.Len(t, granted, 2)
	server := embedtest.Etcd(t)
	client := func(user string) *clientv3.Client {
		config := clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()}
		if user != "" {
			config.Username, config.Password = user, password
		}
		c, err := clientv3.New(config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	admin, ctx := client(""), within(t, soon)
	must := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	must(admin.UserAdd(ctx, "root", password))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.RoleAdd(ctx, "billing"))
	must(admin.RoleGrantPermission(ctx, "billing", granted[1], clientv3.GetPrefixRangeEnd(granted[1]), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(ctx, "billing", password))
	must(admin.UserGrantRole(ctx, "billing", "billing"))
	must(admin.AuthEnable(ctx))
	root := client("root")
	t.Cleanup(func() { _, _ = root.AuthDisable(context.WithoutCancel(t.Context())) })
	open := func() *farsync.Store {
		store, err := etcd.Open(within(t, soon), client("billing"), nil)
		require.NoError(t, err)
		return store
	}
	everything(t, open)
	store := open()
	_, err := farsync.NewMutex(store, "/elsewhere/billing").Lock(within(t, soon))
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.NoError(t, store.Close())
}

func TestLeastRightsOnSQLite(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "billing")
	shell := exec.Command("sh", "-ec", least(t, "install -d"))
	shell.Env = append(os.Environ(), "DIRECTORY="+directory)
	run(t, shell, "")
	everything(t, func() *farsync.Store {
		store, err := sqlite.Open(within(t, soon), filepath.Join(directory, "locks.db"), nil)
		require.NoError(t, err)
		return store
	})
	require.NoError(t, filepath.WalkDir(directory, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == directory {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o002, "all may write %s", path)
		return nil
	}))
	info, err := os.Stat(directory)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}
