package layers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramsRequireNoServer has go mod tidy write the requirements of a program that imports package farsync and one
// backend. It counts the tests of both, so a test that starts a server would have every program download that server.
func TestProgramsRequireNoServer(t *testing.T) {
	lookAtSources(t)
	for _, row := range []struct {
		backend, client string
		never           []string // besides servers
	}{
		{"etcd", "go.etcd.io/etcd/client/v3", []string{"github.com/go-zookeeper"}},
		{"zk", "github.com/go-zookeeper/zk", []string{"go.etcd.io", "google.golang.org"}},
	} {
		t.Run(row.backend, func(t *testing.T) {
			required := tidied(t, row.backend)
			require.Contains(t, required, row.client)
			for line := range strings.Lines(required) {
				for _, refused := range slices.Concat(row.never, etcdServer) {
					require.NotContains(t, line, refused)
				}
			}
		})
	}
	require.Contains(t, tidied(t, "embedtest"), "go.etcd.io/etcd/server", "a server that is required is seen")
}

// tidied returns go.mod and go.sum of a program that imports package farsync and another.
func tidied(t *testing.T, other string) string {
	t.Helper()
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(here, "go.sum")) // so that no checksum is asked for
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module program\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", module, here),
		"go.sum":  string(sums),
		"main.go": fmt.Sprintf("package main\n\nimport (\n\t_ %[1]q\n\t_ \"%[1]s/%[2]s\"\n)\n\nfunc main() {}\n", module, other),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	tidy.Dir = dir
	tidy.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := tidy.CombinedOutput()
	require.NoError(t, err, string(out))
	var all strings.Builder
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
