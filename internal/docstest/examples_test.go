//go:build unix

package docstest_test

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // registers the driver
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
)

// TestExamplesThatNeedServersRun makes a program of each example of a store whose service has to run, and runs it on a server of that kind.
func TestExamplesThatNeedServersRun(t *testing.T) {
	t.Parallel()
	const held, guarded = `^the work, with token \d+$`, "^paid\nanother may hold the lock, and nothing was paid$"
	sources, says := map[string]string{}, map[string]string{}
	var names []string // in the order of the documents: the first example of a database makes the tables
	for _, store := range []struct {
		name  string
		start func(t *testing.T) []string
		says  map[string]string
	}{
		{"etcd", func(t *testing.T) []string { return []string{embedtest.Etcd(t).Endpoint()} }, map[string]string{"ExampleOpen": held, "ExampleGuard": guarded}},
		{"zk", func(t *testing.T) []string { return []string{embedtest.ZooKeeper(t).Endpoint()} }, map[string]string{"ExampleOpen": held, "ExampleGuard": guarded}},
		{"redis", func(t *testing.T) []string { return []string{embedtest.Redis(t).Endpoint()} },
			map[string]string{"Example": `^held, with token \d+$`, "ExampleGuard": `^left: -100$`}},
		{"postgres", func(t *testing.T) []string { return []string{embedtest.Postgres(t).Endpoint()} }, map[string]string{"ExampleOpen": held, "ExampleGuard": guarded}},
		{"mysql", func(t *testing.T) []string { return []string{mariaDBOfApp(t)} }, map[string]string{"ExampleOpen": held, "ExampleGuard": guarded}},
	} {
		source := document(t, filepath.Join(store.name, "example_test.go"))
		var examples []string
		for _, found := range regexp.MustCompile(`(?m)^func (Example\w*)\(\)`).FindAllStringSubmatch(source, -1) {
			examples = append(examples, found[1])
		}
		require.Len(t, examples, len(store.says), "%v", examples)
		addresses := regexp.MustCompile(`"(?:10\.0\.0\.\d|localhost):\d+"(?:, "10\.0\.0\.\d:\d+")*|localhost:\d+`)
		require.Regexp(t, addresses, source)
		address := store.start(t)[0]
		source = addresses.ReplaceAllStringFunc(source, func(found string) string {
			if strings.HasPrefix(found, `"`) {
				return `"` + address + `"`
			}
			return address // within a URL
		})
		source = regexp.MustCompile(`(?m)^package \w+$`).ReplaceAllString(source, "package main")
		for _, example := range examples {
			name := store.name + "-" + example
			names = append(names, name)
			sources[name], says[name] = source+"\nfunc main() {\n\t"+example+"()\n}\n", store.says[example]
		}
	}
	built := newBox(t, t.TempDir(), "examples", sources)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			require.Regexp(t, says[name], run(t, exec.CommandContext(within(t, soon), built.program(t, name)), ""))
		})
	}
}

// mariaDBOfApp returns the address of a server with the user of the examples, which is no administrator.
func mariaDBOfApp(t *testing.T) string {
	server := embedtest.MariaDB(t)
	db, err := sql.Open("mysql", server.DSN("test"))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	for _, statement := range []string{"CREATE USER app", "GRANT ALL ON test.* TO app"} {
		_, err = db.ExecContext(within(t, soon), statement)
		require.NoError(t, err)
	}
	return server.Endpoint()
}
