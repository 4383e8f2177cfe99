package layers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

const megabyte = 1e6

// TestGuestsAreLight makes a program that imports package farsync and one backend, in a module cache with nothing in it. go mod
// tidy counts the tests of both, so a test that starts a server would have every program download that server.
func TestGuestsAreLight(t *testing.T) {
	suite.Long(t, suite.Layers, "fills an empty module cache for each backend")
	lookAtSources(t)
	for _, row := range []struct {
		backend, client string
		never           []string // besides servers
		most            float64  // megabytes
		why             string
	}{
		{
			"etcd", "go.etcd.io/etcd/client/v3", []string{"github.com/go-zookeeper", "modernc.org"}, 40,
			"gRPC, protocol buffers and x/text are most of it",
		},
		{
			"zk", "github.com/go-zookeeper/zk", []string{"go.etcd.io", "google.golang.org", "modernc.org"}, 5,
			"go-zookeeper needs nothing, and neither do we",
		},
		{
			"sqlite", "modernc.org/sqlite", []string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper"}, 80,
			"SQLite and a C library, both as Go for 20 systems, are most of it",
		},
		{
			"redis", "github.com/redis/go-redis/v9",
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "modernc.org"}, 10,
			"go-redis is most of it",
		},
		{
			"postgres", "github.com/jackc/pgx/v5",
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "modernc.org", "github.com/redis"}, 15,
			"pgx and x/text are most of it",
		},
		{
			"mysql", "github.com/go-sql-driver/mysql",
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "modernc.org", "github.com/redis", "github.com/jackc"}, 5,
			"the client is most of it",
		},
	} {
		t.Run(row.backend, func(t *testing.T) {
			g := newGuest(t, row.backend)
			g.run("mod", "tidy")
			for _, text := range []string{g.read("go.mod"), g.read("go.sum")} {
				require.Contains(t, text, row.client)
				for line := range strings.Lines(text) {
					for _, refused := range slices.Concat(row.never, etcdServer) {
						require.NotContains(t, line, refused)
					}
				}
			}
			tidied := g.downloaded()
			g.run("build", "./...")
			built := g.linked()
			t.Logf("go mod tidy: %d zips, %.2f MB; linked are %d of them, %.2f MB", len(tidied), size(tidied), len(built), size(built))
			for _, zip := range tidied {
				t.Logf("%8.2f MB  %s", float64(zip.size)/megabyte, zip.module)
				for _, refused := range slices.Concat(row.never, etcdServer) {
					require.False(t, below(zip.module, refused), zip.module)
				}
			}
			require.Len(t, g.downloaded(), len(tidied), "the build downloads nothing more")
			require.Less(t, size(tidied), row.most, row.why)
		})
	}
}

// The test above would not notice that it sees no server.
func TestAServerThatIsDownloadedIsSeen(t *testing.T) {
	suite.Long(t, suite.Layers, "fills an empty module cache")
	lookAtSources(t)
	g := newGuest(t, "embedtest")
	g.run("mod", "tidy")
	require.Contains(t, g.read("go.mod"), "go.etcd.io/etcd/server")
	require.True(t, slices.ContainsFunc(g.downloaded(), func(zip zip) bool { return below(zip.module, "go.etcd.io/etcd/server") }))
}

// A guest is a program in a module of its own, outside of this one, with a module cache of its own.
type guest struct {
	t          *testing.T
	dir, cache string
	env        []string
}

// newGuest returns a program that imports package farsync and another of ours.
func newGuest(t *testing.T, other string) *guest {
	t.Helper()
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(here, "go.sum")) // so that few checksums are asked for
	require.NoError(t, err)
	g := &guest{t: t, dir: t.TempDir(), cache: filepath.Join(t.TempDir(), "modules")}
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module program\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", module, here),
		"go.sum":  string(sums),
		"main.go": fmt.Sprintf("package main\n\nimport (\n\t_ %[1]q\n\t_ \"%[1]s/%[2]s\"\n)\n\nfunc main() {}\n", module, other),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600))
	}
	// The first tidy fills the machine's own module cache. The guest then takes what it downloads from there, and needs no
	// network.
	g.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath -modcacherw")
	known := g.run("env", "GOMODCACHE", "GOPROXY")
	required := g.read("go.mod")
	g.run("mod", "tidy")
	require.NoError(t, os.WriteFile(filepath.Join(g.dir, "go.mod"), []byte(required), 0o600))
	at, proxy, _ := strings.Cut(strings.TrimSpace(known), "\n")
	g.env = append(g.env, "GOMODCACHE="+g.cache,
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(at, "cache", "download"))+","+proxy)
	return g
}

func (g *guest) run(arguments ...string) string {
	g.t.Helper()
	command := exec.CommandContext(g.t.Context(), "go", arguments...)
	command.Dir, command.Env = g.dir, g.env
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	require.NoError(g.t, command.Run(), complaints.String())
	return out.String()
}

func (g *guest) read(name string) string {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(g.t, err)
	return string(text)
}

// A zip is what was downloaded of a module.
type zip struct {
	module string
	size   int64
}

// downloaded returns the zips in the module cache, in the order of their modules.
func (g *guest) downloaded() (zips []zip) {
	g.t.Helper()
	cache := filepath.Join(g.cache, "cache", "download")
	require.NoError(g.t, filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".zip") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("size of %s: %w", path, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(cache)+"/"), "/@v/")
		zips = append(zips, zip{module: name, size: info.Size()})
		return nil
	}))
	return zips
}

// linked returns those of the zips that the program is built of.
func (g *guest) linked() []zip {
	g.t.Helper()
	used := map[string]bool{}
	decoder := json.NewDecoder(strings.NewReader(g.run("list", "-deps", "-json=Module", "./...")))
	for {
		var p struct{ Module struct{ Path string } }
		if err := decoder.Decode(&p); err != nil {
			require.ErrorIs(g.t, err, io.EOF)
			break
		}
		used[p.Module.Path] = true
	}
	return slices.DeleteFunc(g.downloaded(), func(zip zip) bool { return !used[zip.module] })
}

// size is in megabytes.
func size(zips []zip) (sum float64) {
	for _, zip := range zips {
		sum += float64(zip.size) / megabyte
	}
	return sum
}
