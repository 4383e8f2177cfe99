//go:build unix

package docstest_test

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	redisclient "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// billing is the lock of the runbook.
const billing = "/locks/billing"

// A scene is a holder and a waiter on that lock.
type scene struct {
	holder *farsync.Lease
	next   chan *farsync.Lease
	list   []farsync.Participant
}

func newScene(t *testing.T, open func(farsync.Options) *farsync.Store) scene {
	t.Helper()
	farsyncCommand(t) // is built before, so that nobody has to hold or wait for as long as that takes
	s := scene{next: make(chan *farsync.Lease, 1)}
	for _, holder := range []string{"worker-1 pid 412", "worker-2 pid 88"} {
		store := open(farsync.Options{Holder: holder})
		t.Cleanup(func() { _ = store.Close() })
		mu := farsync.NewMutex(store, billing)
		if s.holder == nil {
			lease, err := mu.Lock(within(t, soon))
			require.NoError(t, err)
			s.holder = lease
			continue
		}
		ctx := within(t, soon)
		go func() { // ends with ctx at the latest
			lease, _ := mu.Lock(ctx)
			s.next <- lease
		}()
		for {
			list, err := store.Participants(ctx, billing)
			require.NoError(t, err)
			if s.list = list; len(list) == 2 {
				break
			}
		}
	}
	return s
}

// broken waits until the holder has heard, and the waiter holds.
func (s scene) broken(t *testing.T) {
	t.Helper()
	next := <-s.next
	require.NotNil(t, next)
	<-s.holder.Done()
	require.ErrorIs(t, s.holder.Err(), farsync.ErrLost)
	require.NoError(t, next.Err())
}

func TestRunbookOnZooKeeper(t *testing.T) {
	t.Parallel()
	server := embedtest.ZooKeeper(t)
	s := newScene(t, func(o farsync.Options) *farsync.Store {
		store, err := zk.Open(within(t, soon), []string{server.Endpoint()}, &zk.Options{Options: o})
		require.NoError(t, err)
		return store
	})
	cli, err := exec.LookPath("zkCli.sh")
	if err != nil {
		cli = "/usr/share/zookeeper/bin/zkCli.sh" // Debian's package
	}
	// command runs the line of the runbook that begins like that.
	command := func(verb, node string) string {
		for block := range strings.SplitSeq(document(t, "docs/RUNBOOK.md"), "`") {
			for line := range strings.Lines(block) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, `zkCli.sh -server "$SERVER" `+verb+" ") {
					shell := exec.Command("sh", "-c", strings.Replace(line, "zkCli.sh", cli, 1)+" 2>/dev/null")
					shell.Env = append(shell.Environ(), "SERVER="+server.Endpoint(), "NODE="+node)
					return run(t, shell, "")
				}
			}
		}
		require.Fail(t, "the runbook has no such command", verb)
		return ""
	}
	// zkCli says more, before or behind the list, as it comes: that it is connected, and what it watches.
	listed := regexp.MustCompile(`\[(_c_[^\[\]]+)\]`).FindStringSubmatch(command("ls", ""))
	require.Len(t, listed, 2)
	nodes := strings.Split(listed[1], ", ")
	require.Len(t, nodes, 2)
	number := func(node string) string { return node[strings.LastIndexByte(node, '-')+1:] }
	slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	require.Contains(t, nodes[0], "-lock-")
	require.Equal(t, billing+"/"+nodes[0], s.list[0].ID, "Participants names the node to delete")
	shown := command("get", nodes[0])
	require.Contains(t, shown, "worker-1 pid 412\n")
	require.Contains(t, shown, "ephemeralOwner = 0x1")
	command("delete", nodes[0])
	s.broken(t)
}

func TestRunbookOnRedis(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"evalsha", "zadd"} {
		t.Run(verb, func(t *testing.T) {
			server := embedtest.Redis(t)
			s := newScene(t, func(o farsync.Options) *farsync.Store {
				to := &redisclient.UniversalOptions{Addrs: []string{server.Endpoint()}}
				store, err := redis.Open(within(t, soon), to, &redis.Options{Options: o, Fresh: true})
				require.NoError(t, err)
				return store
			})
			host, port, _ := strings.Cut(server.Endpoint(), ":")
			// command runs the line of the runbook that begins like that.
			command := func(verb string, environment ...string) string {
				for line := range strings.Lines(document(t, "docs/RUNBOOK.md")) {
					if strings.HasPrefix(line, "redis-cli "+verb+" ") {
						cli := "redis-cli -h " + host + " -p " + port
						shell := exec.Command("sh", "-c", strings.ReplaceAll(strings.TrimSpace(line), "redis-cli", cli))
						shell.Env = append(shell.Environ(), environment...)
						return run(t, shell, "")
					}
				}
				require.Fail(t, "the runbook has no such command", verb)
				return ""
			}
			entries := strings.Fields(command("zrange"))
			require.Len(t, entries, 2)
			require.Equal(t, s.list[0].ID, entries[0], "Participants names the entry to remove")
			hash := strings.Split(command("hgetall", "ENTRY="+entries[0]), "\n")
			field := func(name string) string { return hash[slices.Index(hash, name)+1] }
			require.Equal(t, "worker-1 pid 412", field("value"))
			require.Equal(t, "exclusive", field("kind"))
			answer := command(verb, "ENTRY="+entries[0], "SESSION="+field("session"))
			if verb == "evalsha" {
				require.Equal(t, []string{"ok", "1"}, strings.Fields(answer)[:2])
			}
			s.broken(t)
		})
	}
}

func TestRunbookOnSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "locks.db")
	s := newScene(t, func(o farsync.Options) *farsync.Store {
		store, err := sqlite.Open(within(t, soon), file, &sqlite.Options{Options: o})
		require.NoError(t, err)
		return store
	})
	look, remove := blocks(t, "docs/RUNBOOK.md", "sql", "-- look"), blocks(t, "docs/RUNBOOK.md", "sql", "-- break")
	db := openSQLite(t, file)
	rows, err := db.QueryContext(t.Context(), look[0])
	require.NoError(t, err)
	var ids, holders []string
	for rows.Next() {
		var revision, units int64
		var id, kind, holder, since string
		require.NoError(t, rows.Scan(&revision, &id, &kind, &units, &holder, &since))
		require.Regexp(t, `^20\d\d-`, since)
		ids, holders = append(ids, id), append(holders, holder)
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.Equal(t, []string{"worker-1 pid 412", "worker-2 pid 88"}, holders)
	require.Equal(t, ids[0], s.list[0].ID, "Participants names the row to delete")
	_, err = db.ExecContext(t.Context(), remove[0], sql.Named("id", ids[0]))
	require.NoError(t, err)
	s.broken(t)
}
