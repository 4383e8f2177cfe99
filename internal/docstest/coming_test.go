//go:build unix

package docstest_test

import (
	"fmt"
	"os"
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
	documents, err := filepath.Glob("../../docs/coming-from-*.md")
	require.NoError(t, err)
	require.Len(t, documents, 4)
	var servers []string
	for range 3 {
		servers = append(servers, embedtest.Redis(t).Endpoint())
		// Nothing is held on a server that is new: the programs need not wait for a TTL.
		store, err := redis.Open(within(t, soon), &goredis.UniversalOptions{Addrs: servers[len(servers)-1:]}, &redis.Options{Fresh: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
	}
	for _, path := range documents {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			programs := blocks(t, "docs/"+name, "go", "package main")
			require.Len(t, programs, 1)
			dir := t.TempDir()
			source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
			require.NoError(t, os.WriteFile(source, []byte("package main\n"+programs[0]+"\n"), 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput()
			require.NoError(t, err, string(out))
			formatted, err := exec.CommandContext(t.Context(), "gofmt", "-l", source).CombinedOutput()
			require.NoError(t, err)
			require.Empty(t, string(formatted))

			command, want := "$ go run .", ""
			for n := 1; want == ""; n++ {
				require.LessOrEqual(t, n, len(servers), "the document has no text block that shows how it is run")
				command += fmt.Sprint(" localhost:", 6378+n)
				if strings.Contains(document(t, "docs/"+name), "\n```text\n"+command+"\n") {
					want = strings.TrimSpace(blocks(t, "docs/"+name, "text", command)[0])
					require.Equal(t, want, run(t, exec.CommandContext(within(t, soon), program, servers[:n]...), ""))
				}
			}
		})
	}
}
