//go:build unix

package docstest_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/redis"
)

// TestProgramsForThoseWhoComeFromElsewhere builds and runs the program of each such document, which prints what it says there.
func TestProgramsForThoseWhoComeFromElsewhere(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/coming-from-*.md")
	require.NoError(t, err)
	require.Len(t, documents, 10)
	// The servers as the documents name them, and those that run.
	servers := map[string]string{
		"postgres://postgres@localhost:5432/postgres": embedtest.Postgres(t).URL(),
		"localhost:2181":                 embedtest.ZooKeeper(t).Endpoint(),
		"'app@tcp(localhost:3306)/test'": embedtest.MariaDB(t).DSN("test"),
	}
	for n := range 3 {
		server := embedtest.Redis(t).Endpoint()
		servers[fmt.Sprint("localhost:", 6379+n)] = server
		// Nothing is held on a server that is new: the programs need not wait for a TTL.
		store, err := redis.Open(within(t, soon), &goredis.UniversalOptions{Addrs: []string{server}}, &redis.Options{Fresh: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
	}
	for _, path := range documents {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			program := programOf(t, strings.TrimSuffix(name, ".md"))
			_, shown, found := strings.Cut(document(t, "docs/"+name), "\n```text\n$ go run . ")
			require.True(t, found, "the document has no text block that shows how it is run")
			to, want, _ := strings.Cut(shown, "\n")
			want, _, _ = strings.Cut(want, "\n```")
			var arguments []string
			for server := range strings.FieldsSeq(to) {
				require.Contains(t, servers, server)
				arguments = append(arguments, servers[server])
			}
			require.Equal(t, want, run(t, exec.CommandContext(within(t, soon), program, arguments...), ""))
		})
	}
}
