//go:build unix

package docstest_test

import (
	"database/sql"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	redisclient "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/etcd"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/mysql"
	"github.com/farsync/farsync/postgres"
	"github.com/farsync/farsync/redis"
	"github.com/farsync/farsync/sqlite"
	"github.com/farsync/farsync/zk"
)

// insides are the pages of docs/inside about a store, and the folders that have its code and its tests.
var insides = map[string][]string{
	"etcd":       {"etcd", "internal/etcdtest"},
	"zookeeper":  {"zk", "internal/zktest"},
	"redis":      {"redis", "internal/redistest"},
	"postgresql": {"postgres", "internal/sqlstore", "internal/postgrestest"},
	"mysql":      {"mysql", "internal/sqlstore", "internal/mysqltest"},
	"sqlite":     {"sqlite", "internal/sqlstore"},
}

// TestInsideOfEveryStore: each store has its page, with the same headings in the same order. A row of what may fail names
// a test of that store, or a test of package recipe, whose Store is the same on all of them. The page is short.
func TestInsideOfEveryStore(t *testing.T) {
	const words = 880
	target := regexp.MustCompile(`\]\([^)]*\)`)
	pages, err := filepath.Glob("../../docs/inside/*.md")
	require.NoError(t, err)
	require.Len(t, pages, len(insides)+2, "a page a store, why-it-holds.md and rejected.md")
	for name, folders := range insides {
		page := "docs/inside/" + name + ".md"
		text := prose(t, page)
		shown := strings.ReplaceAll(target.ReplaceAllString(text, "]"), "|", " ")
		require.Less(t, len(strings.Fields(shown)), words, "words of %s that a reader sees, but for its code", page)
		var headings []string
		for _, h := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1) {
			headings = append(headings, h[1])
		}
		require.Equal(t, []string{
			"What an entry looks like", "How it joins", "How it waits", "How it leaves", "How a session ends", "What may fail",
			"Where the choice was made",
		}, headings, page)

		code := read(t, func(path string) bool {
			folder, _ := filepath.Rel("../..", filepath.Dir(path))
			return strings.HasSuffix(path, "_test.go") && (folder == "recipe" || slices.Contains(folders, folder))
		})
		_, table, _ := strings.Cut(text, "\n|---|---|---|\n")
		rows := 0
		for line := range strings.Lines(table) {
			if !strings.HasPrefix(line, "|") {
				break
			}
			rows++
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			require.Len(t, cells, 3, "%s: %s", page, line)
			tests := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(cells[2], -1)
			require.NotEmpty(t, tests, "%s: %s", page, line)
			for _, test := range tests {
				require.Contains(t, code, "\nfunc "+test[1]+"(", "%s names a test that is not of this store", page)
			}
		}
		require.Greater(t, rows, 9, page)
	}
}

// An insider has what a page shows of a service shown by that service.
type insider struct {
	open  func(o farsync.Options) *farsync.Store
	shell func(command string) string // runs a command of the page
	entry *regexp.Regexp              // the ID of the holder's entry in a command
}

// TestInsidePagesShowWhatServicesShow runs the commands of each page of docs/inside beside a holder and a waiter. What
// is drawn by chance, and what is a time, may be another.
func TestInsidePagesShowWhatServicesShow(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) insider{
		"etcd": insideEtcd, "redis": insideRedis, "sqlite": insideSQLite, "postgresql": insidePostgres,
		"mysql": insideMySQL, "zookeeper": insideZooKeeper,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "mysql" || name == "zookeeper" {
				suite.Long(t, suite.Command, "starts a server that is slow to start, to see a few lines")
			}
			t.Parallel()
			in := open(t)
			var last *farsync.Store
			s := newScene(t, func(o farsync.Options) *farsync.Store { last = in.open(o); return last })
			_, err := farsync.NewSemaphore(last, "/jobs/import", 3).Acquire(within(t, soon), 2)
			require.NoError(t, err)

			commands := 0
			for block := range strings.SplitSeq(document(t, "docs/inside/"+name+".md"), "```") {
				text, ok := strings.CutPrefix(block, "text\n$ ")
				if !ok {
					continue
				}
				for one := range strings.SplitSeq(text, "\n$ ") {
					commands++
					command, shows, _ := strings.Cut(one, "\n")
					if in.entry != nil {
						command = in.entry.ReplaceAllString(command, s.list[0].ID)
					}
					require.Equal(t, masked(shows), masked(in.shell(command)), command)
				}
			}
			require.Positive(t, commands)
		})
	}
}

// masked returns lines without what differs from one server to the next.
func masked(text string) []string {
	for _, mask := range []struct{ of, as string }{
		// A server that is slow to say that it has no authentication leaves a mutex without a turn, and so with the other name.
		{`/m-(t[0-9a-f]+\.\d{10}|[2-7A-Z]{26})\b`, "/m-NAME"},
		{`[2-7A-Z]{26}`, "ID"},
		{`_c_[2-7A-Z]{12}`, "_c_ID"},
		{`0x[0-9a-f]+`, "0xN"},
		{`[0-9a-f]{8}-[0-9a-f-]{27}( time:\[\d+\])?`, "BOOT"},
		{`20\d\d-\d\d-\d\dT[\d:.]+Z`, "TIME"},
		{`time = .*`, "time = TIME"},
		{`\b\d{11,}\b`, "N"},
		{`-{2,}`, "--"},
		{`[ \t]+`, " "},
	} {
		text = regexp.MustCompile(mask.of).ReplaceAllString(text, mask.as)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

func insideEtcd(t *testing.T) insider {
	server := embedtest.Etcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			store, err := etcd.Open(within(t, soon), client, &etcd.Options{Options: o})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string { // as etcdctl, which need not be there
			of := regexp.MustCompile(`^etcdctl get (--sort-by=CREATE --order=ASCEND )?--prefix (\S+)$`).FindStringSubmatch(command)
			require.NotNil(t, of, command)
			options := []clientv3.OpOption{clientv3.WithPrefix()}
			if of[1] != "" {
				options = append(options, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
			}
			resp, err := client.Get(within(t, soon), of[2], options...)
			require.NoError(t, err)
			var shown strings.Builder
			for _, kv := range resp.Kvs {
				fmt.Fprintf(&shown, "%s\n%s\n", kv.Key, kv.Value)
			}
			return shown.String()
		},
	}
}

func insideRedis(t *testing.T) insider {
	server := embedtest.Redis(t)
	host, port, _ := strings.Cut(server.Endpoint(), ":")
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			to := &redisclient.UniversalOptions{Addrs: []string{server.Endpoint()}}
			store, err := redis.Open(within(t, soon), to, &redis.Options{Options: o, Fresh: true})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string {
			return run(t, exec.Command("sh", "-c", strings.Replace(command, "redis-cli", "redis-cli -h "+host+" -p "+port, 1)), "")
		},
		entry: regexp.MustCompile(`exclusive-[2-7A-Z]{26}`),
	}
}

func insideSQLite(t *testing.T) insider {
	file := filepath.Join(t.TempDir(), "locks.db")
	var db *sql.DB
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			store, err := sqlite.Open(within(t, soon), file, &sqlite.Options{Options: o})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string { // as the sqlite3 shell, which need not be there, nor be late enough
			if db == nil {
				db = openSQLite(t, file)
			}
			query, ok := strings.CutPrefix(command, `sqlite3 -header locks.db "`)
			require.True(t, ok, command)
			rows, err := db.QueryContext(t.Context(), strings.TrimSuffix(query, `"`))
			require.NoError(t, err)
			defer func() { require.NoError(t, rows.Close()) }()
			columns, err := rows.Columns()
			require.NoError(t, err)
			shown := []string{strings.Join(columns, "|")}
			for rows.Next() {
				values, to := make([]string, len(columns)), make([]any, len(columns))
				for i := range values {
					to[i] = &values[i]
				}
				require.NoError(t, rows.Scan(to...))
				shown = append(shown, strings.Join(values, "|"))
			}
			require.NoError(t, rows.Err())
			return strings.Join(shown, "\n")
		},
	}
}

func insidePostgres(t *testing.T) insider {
	server := embedtest.Postgres(t)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(within(t, soon), config.ConnConfig))
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			store, err := postgres.Open(within(t, soon), config, &postgres.Options{Options: o})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string {
			return run(t, exec.Command("sh", "-c", strings.Replace(command, "psql", "psql -X '"+server.URL()+"'", 1)), "")
		},
	}
}

func insideMySQL(t *testing.T) insider {
	server := embedtest.MariaDB(t)
	require.NoError(t, mysql.Migrate(within(t, soon), server.DSN("test")))
	host, port, _ := strings.Cut(server.Endpoint(), ":")
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			store, err := mysql.Open(within(t, soon), server.DSN("test"), &mysql.Options{Options: o})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string {
			client := "mariadb --no-defaults -h " + host + " -P " + port + " -u root test"
			return run(t, exec.Command("sh", "-c", strings.Replace(command, "mariadb", client, 1)), "")
		},
	}
}

func insideZooKeeper(t *testing.T) insider {
	server := embedtest.ZooKeeper(t)
	conn, _, err := zookeeper.Connect([]string{server.Endpoint()}, soon, zookeeper.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return insider{
		open: func(o farsync.Options) *farsync.Store {
			store, err := zk.Open(within(t, soon), []string{server.Endpoint()}, &zk.Options{Options: o})
			require.NoError(t, err)
			return store
		},
		shell: func(command string) string { // as zkCli.sh, without what it says besides, and each node by its number
			words := strings.Fields(command)
			node := words[len(words)-1]
			if strings.HasPrefix(command, "zkCli.sh ls ") {
				children, _, err := conn.Children(node)
				require.NoError(t, err)
				number := func(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
				slices.SortFunc(children, func(a, b string) int { return strings.Compare(number(a), number(b)) })
				return "[" + strings.Join(children, ", ") + "]"
			}
			require.True(t, strings.HasPrefix(command, "zkCli.sh get -s "), command)
			value, stat, err := conn.Get(node)
			require.NoError(t, err)
			return fmt.Sprintf("%s\ncZxid = %#x\nephemeralOwner = %#x", value, stat.Czxid, stat.EphemeralOwner)
		},
		entry: regexp.MustCompile(`/locks/billing/_c_\S+`),
	}
}
