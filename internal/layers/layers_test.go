// Package layers holds the packages of this module to the arrows between them: which may import which, and what a
// program must not have to build because it imports one.
package layers

import (
	"bytes"
	"encoding/json"
	"errors"
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
)

const (
	module = "github.com/farsync/farsync"
	// root is the module's directory, seen from here.
	root = "../.."
	// farsync is the root package, in a rule.
	farsync = "."
)

// thirdParty in a rule stands for every package that is neither of the standard library nor ours.
const thirdParty = "…"

// A rule says what a package and those below it may import, directly or through others.
type rule struct {
	of    string   // the package, relative to the module
	ours  []string // of our packages: these, those below them, and those below itself
	apart []string // of our packages: none of these, although they lie below some of ours
	never []string // of all packages: none of these, and none below them
	why   string
}

// A package has one rule. The rule may come before the package.
var rules = []rule{
	{
		of:    "driver/drivertest",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "farsynctest", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: []string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "github.com/redis", "go.opentelemetry.io"},
		why:   "it is for the tests of any backend, so it is handed one and knows none",
	},
	{
		of:    "driver",
		never: append([]string{thirdParty}, testOnly...),
		why:   "the contract of a backend is made of nothing but the standard library's types",
	},
	{
		of:    "internal/aside",
		never: append([]string{thirdParty}, testOnly...),
		why:   "all that logs uses it",
	},
	{
		of:    "internal/handshake",
		ours:  []string{"internal/aside"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com", "golang.org"}, testOnly),
		why:   "drivers use it whose client connects by TLS, and package recipe, which logs, builds no TLS",
	},
	{
		of:    "internal/api",
		never: append([]string{thirdParty}, testOnly...),
		why:   "it reads what the compiler has written of the others, and is built in the moment in which make check needs it",
	},
	{
		of:    "internal/plain",
		never: append([]string{thirdParty}, testOnly...),
		why:   "it reads the words of the others, and is built in the moment in which make check needs it",
	},
	{
		of:    "internal/pause",
		never: append([]string{thirdParty}, testOnly...),
		why:   "all that waits uses it",
	},
	{
		of:    "internal/goroutine",
		never: append([]string{thirdParty}, testOnly...),
		why:   "the waist uses it",
	},
	{
		of:    "internal/legible",
		never: append([]string{thirdParty}, testOnly...),
		why:   "all that prints uses it",
	},
	{
		of:    "internal/nested",
		never: append([]string{thirdParty}, testOnly...),
		why:   "the primitives mark a context with it, and the waist reads that",
	},
	{
		of:    "internal/machine",
		never: append([]string{"github.com"}, testOnly...),
		why:   "it is what processes of one machine share, and knows nothing of locks; golang.org/x/sys is how the system is asked",
	},
	{
		of:    "internal/peers",
		never: append([]string{"github.com", "golang.org"}, testOnly...),
		why:   "it is how processes of one machine hear of one another, and knows nothing of locks",
	},
	{
		of:    "internal/turnstile",
		ours:  []string{"internal/machine", "internal/pause"},
		never: append([]string{"github.com"}, testOnly...),
		why:   "it keeps processes of one machine in order, whatever they wait for",
	},
	{
		of:    "internal/deaf",
		never: append([]string{thirdParty}, testOnly...),
		why:   "it is for calls of any library that hears of no context",
	},
	{
		of:    "internal/census",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com", "go.opentelemetry.io"}, testOnly),
		why:   "both modules that measure count with it, and neither is to bring the other's library",
	},
	{
		of:    "internal/deadlock",
		ours:  []string{"driver"},
		never: append([]string{thirdParty}, testOnly...),
		why:   "it is a pure function of what a survey shows",
	},
	{
		of:    "recipe",
		ours:  []string{"driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: append([]string{thirdParty}, testOnly...),
		why:   "the waist decides by pure functions and knows no backend and no primitive; all else stands on it",
	},
	{
		of:    "internal/beneath",
		ours:  []string{"recipe", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: append([]string{thirdParty}, testOnly...),
		why:   "package farsync tells it the way from its Stores to those of the waist, so it cannot import that package",
	},
	{
		of:    farsync,
		ours:  []string{"recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com", "go.opentelemetry.io"}, testOnly),
		why: "the primitives run on any Store, so a program builds the one backend that it imports itself; " +
			"golang.org/x/sync is what a Pool is made of",
	},
	{
		of:    "etcd",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat([]string{"github.com/redis", "github.com/jackc", "github.com/go-sql-driver"}, etcdServer, commandLine, testOnly),
		why:   "a backend knows no other, and costs a program etcd's client, nothing of a server or a tool",
	},
	{
		of:   "zk",
		ours: []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat(
			[]string{"go.etcd.io", "google.golang.org", "github.com/redis", "github.com/jackc", "github.com/go-sql-driver"}, etcdServer, commandLine, testOnly),
		why: "a backend knows no other, and those who run ZooKeeper build neither etcd nor gRPC",
	},
	{
		of:    "internal/sqlstore",
		ours:  []string{"driver", "internal/pause", "internal/legible"},
		never: append([]string{thirdParty}, testOnly...),
		why:   "it is the part of a driver that all SQL databases share, so it knows none of them",
	},
	{
		of:   "sqlite",
		ours: append([]string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore"}, ofOneMachine...),
		never: slices.Concat(
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "github.com/redis", "github.com/jackc", "github.com/go-sql-driver"},
			etcdServer, commandLine, testOnly),
		why: "a backend knows no other, and those who lock on one machine build no client of a server",
	},
	{
		of:   "redis",
		ours: []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat(
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "modernc.org", "github.com/jackc", "github.com/go-sql-driver"},
			etcdServer, commandLine, testOnly),
		why: "a backend knows no other, and those who run Redis build one client",
	},
	{
		of:   "postgres",
		ours: []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore"},
		never: slices.Concat(
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "github.com/redis", "modernc.org", "github.com/go-sql-driver"},
			etcdServer, commandLine, testOnly),
		why: "a backend knows no other, and those who run PostgreSQL build one client",
	},
	{
		of:   "mysql",
		ours: []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore"},
		never: slices.Concat(
			[]string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "github.com/redis", "modernc.org", "github.com/jackc"},
			etcdServer, commandLine, testOnly),
		why: "a backend knows no other, and those who run MySQL or MariaDB build one client",
	},
	{
		of:    "internal/model",
		ours:  []string{"driver"},
		never: append([]string{thirdParty}, testOnly...),
		why:   "it is handed the rules that it explores, and knows what an entry is",
	},
	{
		of:    "farsynctest",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		apart: []string{"driver/drivertest"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com", "go.opentelemetry.io"}, testOnly),
		why:   "it opens Stores for the tests of any program, so it knows no backend, and chooses nobody's library of assertions",
	},
	{
		of:  "embedtest",
		why: "it is for the tests of any client of these servers, and our backends' own tests use it",
	},
	{
		of:   "internal/mysqlkind",
		ours: []string{"embedtest"},
		why:  "it chooses a server for tests of all packages, and knows no client",
	},
	{
		of:    "internal/locktest",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "farsynctest"},
		never: []string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper", "github.com/redis"},
		why:   "it says how the primitives behave over every Store, so it is handed one and knows none",
	},
	{
		of:    "internal/electiontest",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "farsynctest", "internal/locktest"},
		never: []string{"go.etcd.io", "google.golang.org", "github.com/go-zookeeper"},
		why:   "it says how elections behave on every cluster, so it is handed one and knows none",
	},
	{
		of:    "internal/earlier",
		never: []string{thirdParty},
		why:   "it builds a farsync of another time, and needs nothing of today's",
	},
	{
		of:    "internal/compattest",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "zk"},
		never: slices.Concat(etcdServer, commandLine, testOnly),
		why:   "it is compiled with an earlier farsync too, as the programs of a user are, and uses no more than they do",
	},
	{
		of: "internal/zktest",
		ours: []string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "zk", "farsynctest", "embedtest", "internal/locktest",
			"internal/electiontest",
		},
		why: "it holds one backend's tests against real servers, and no package imports it",
	},
	{
		of: "internal/etcdtest",
		ours: []string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "farsynctest", "embedtest", "internal/locktest",
			"internal/electiontest",
		},
		why: "it holds one backend's tests against real servers, and no package imports it",
	},
	{
		of: "internal/postgrestest",
		ours: []string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore", "postgres", "farsynctest", "embedtest",
			"internal/locktest",
		},
		why: "it holds one backend's tests against real servers, and no package imports it",
	},
	{
		of: "internal/mysqltest",
		ours: []string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore", "mysql", "farsynctest", "embedtest",
			"internal/locktest",
		},
		why: "it holds one backend's tests against real servers, and no package imports it",
	},
	{
		of:   "internal/stdsqltest",
		ours: []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/sqlstore"},
		why:  "it holds tests on a database that those who import what it tests are not to download, and no package imports it",
	},
	{
		of: "internal/redistest",
		ours: []string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "redis", "farsynctest", "embedtest",
			"internal/locktest",
		},
		why: "it holds one backend's tests against real servers, and no package imports it",
	},
	{
		of: "internal/docstest",
		ours: append([]string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "zk", "sqlite", "internal/sqlstore", "embedtest",
		}, ofOneMachine...),
		why: "it runs what the documents print, and uses no more than their readers do",
	},
	{
		of: "internal/torture",
		ours: append([]string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "zk", "redis", "postgres",
			"mysql", "sqlite", "internal/sqlstore", "embedtest",
		}, ofOneMachine...),
		why: "it does to every store what can go wrong, from outside, and no package imports it",
	},
	{
		of:    "adapt",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com"}, testOnly),
		why:   "it fits the interfaces of others by the standard library's types alone, so that no program builds those others",
	},
	{
		of:    "live",
		ours:  []string{farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "internal/deadlock"},
		never: slices.Concat([]string{"go.etcd.io", "google.golang.org", "github.com"}, testOnly),
		why:   "a page for any Store, which a program serves itself, costs it nothing but the page",
	},
	{
		of:    "internal/suite",
		never: []string{"github.com", "golang.org", "go.etcd.io", "google.golang.org", "modernc.org"},
		why:   "the tests of every module of this repository mark themselves with it, and it costs none of them a module",
	},
	{
		of:  "internal/livetest",
		why: "it shows the page of many kinds of stores to a browser, and no package imports it",
	},
	{
		of:  "internal/layers",
		why: "it looks at the others from outside",
	},
	{
		of: "cmd",
		ours: append([]string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "zk", "redis", "postgres",
			"mysql", "sqlite", "internal/sqlstore", "live", "internal/deadlock",
		}, ofOneMachine...),
		never: slices.Concat(etcdServer, testOnly),
		why:   "the tool does what any program could do with the packages that every program can import, and is no server",
	},
	{
		of: "examples",
		ours: append([]string{
			farsync, "recipe", "internal/beneath", "driver", "internal/aside", "internal/handshake", "internal/pause", "internal/goroutine", "internal/nested", "internal/legible", "etcd", "zk", "sqlite", "internal/sqlstore", "embedtest", "live", "internal/deadlock",
		}, ofOneMachine...),
		why: "an example shows what its reader can do too",
	},
}

var (
	// ofOneMachine are what SQLite's driver is made of beside SQL.
	ofOneMachine = []string{"internal/machine", "internal/peers", "internal/turnstile", "internal/deaf"}
	testOnly     = []string{
		"testing", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid",
		"github.com/anishathalye/porcupine",
	}
	etcdServer = []string{
		"go.etcd.io/etcd/server", "go.etcd.io/raft", "go.etcd.io/bbolt",
		"github.com/prometheus", "go.opentelemetry.io",
	}
	commandLine = []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/urfave/cli"}
)

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	packages := load(t)
	for _, p := range packages {
		if !p.ours() {
			continue
		}
		r, ok := ruleOf(p.ImportPath)
		if !ok {
			t.Errorf("%s has no rule: add one, with its reason", p.ImportPath)
			continue
		}
		for _, chain := range r.refused(packages, p) {
			t.Errorf("%s\nis refused: %s", strings.Join(chain, "\n\t→ "), r.why)
		}
	}
}

// A rule that holds nothing back would go unnoticed.
func TestRulesRefuse(t *testing.T) {
	for _, c := range []struct {
		from, to string
		standard bool
	}{
		{from: module, to: module + "/etcd"},
		{from: module, to: module + "/farsynctest"},
		{from: module, to: "github.com/petermattis/goid"},
		{from: module + "/driver", to: module + "/recipe"},
		{from: module + "/driver", to: "golang.org/x/sync/errgroup"},
		{from: module + "/internal/deadlock", to: module + "/recipe"},
		{from: module + "/internal/api", to: "golang.org/x/tools/go/packages"},
		{from: module + "/recipe", to: module},
		{from: module + "/recipe", to: module + "/farsynctest"},
		{from: module + "/recipe", to: "golang.org/x/sync/errgroup"},
		{from: module + "/recipe", to: "testing/synctest", standard: true},
		{from: module + "/etcd", to: module + "/zk"},
		{from: module + "/zk", to: module + "/etcd"},
		{from: module + "/etcd", to: "go.etcd.io/etcd/server/v3/embed"},
		{from: module + "/etcd/below", to: "go.opentelemetry.io/otel"},
		{from: module + "/zk", to: "google.golang.org/grpc"},
		{from: module + "/sqlite", to: module + "/etcd"},
		{from: module + "/sqlite", to: "go.etcd.io/etcd/client/v3"},
		{from: module + "/sqlite", to: "google.golang.org/grpc"},
		{from: module + "/sqlite", to: "github.com/go-zookeeper/zk"},
		{from: module + "/redis", to: module + "/etcd"},
		{from: module + "/redis", to: "go.etcd.io/etcd/client/v3"},
		{from: module + "/redis", to: "google.golang.org/grpc"},
		{from: module + "/redis", to: "github.com/go-zookeeper/zk"},
		{from: module + "/redis", to: "modernc.org/sqlite"},
		{from: module + "/etcd", to: "github.com/redis/go-redis/v9"},
		{from: module + "/zk", to: "github.com/redis/go-redis/v9"},
		{from: module + "/sqlite", to: "github.com/redis/go-redis/v9"},
		{from: module + "/postgres", to: module + "/sqlite"},
		{from: module + "/postgres", to: "modernc.org/sqlite"},
		{from: module + "/postgres", to: "google.golang.org/grpc"},
		{from: module + "/sqlite", to: "github.com/jackc/pgx/v5"},
		{from: module + "/etcd", to: "github.com/jackc/pgx/v5"},
		{from: module + "/zk", to: "github.com/jackc/pgx/v5"},
		{from: module + "/redis", to: "github.com/jackc/pgx/v5"},
		{from: module + "/mysql", to: module + "/postgres"},
		{from: module + "/mysql", to: "github.com/jackc/pgx/v5"},
		{from: module + "/mysql", to: "modernc.org/sqlite"},
		{from: module + "/mysql", to: "google.golang.org/grpc"},
		{from: module + "/postgres", to: "github.com/go-sql-driver/mysql"},
		{from: module + "/sqlite", to: "github.com/go-sql-driver/mysql"},
		{from: module + "/etcd", to: "github.com/go-sql-driver/mysql"},
		{from: module + "/zk", to: "github.com/go-sql-driver/mysql"},
		{from: module + "/redis", to: "github.com/go-sql-driver/mysql"},
		{from: module + "/live", to: module + "/etcd"},
		{from: module + "/live", to: "github.com/gorilla/websocket"},
		{from: module + "/farsynctest", to: module + "/etcd"},
		{from: module + "/farsynctest", to: module + "/driver/drivertest"},
		{from: module + "/farsynctest", to: "github.com/stretchr/testify/require"},
		{from: module + "/farsynctest", to: "testing", standard: true},
		{from: module + "/driver/drivertest", to: module + "/etcd"},
		{from: module + "/internal/beneath", to: module},
		{from: module + "/embedtest", to: module + "/recipe"},
		{from: module + "/cmd/farsync", to: module + "/embedtest"},
		{from: module + "/cmd/farsync", to: "go.etcd.io/etcd/server/v3/embed"},
		{from: module, to: "github.com/spf13/cobra"},
		{from: module, to: "go.opentelemetry.io/otel"},
		{from: module, to: "github.com/prometheus/client_golang/prometheus"},
		{from: module + "/recipe", to: "go.opentelemetry.io/otel"},
		{from: module + "/farsynctest", to: "go.opentelemetry.io/otel"},
		{from: module + "/redis", to: "go.opentelemetry.io/otel/trace"},
		{from: module + "/zk", to: "github.com/prometheus/client_golang/prometheus"},
		{from: module + "/etcd", to: "github.com/spf13/cobra"},
		{from: module + "/zk", to: "github.com/spf13/pflag"},
		{from: module + "/examples/quickstart", to: module + "/farsynctest"},
	} {
		r, ok := ruleOf(c.from)
		require.True(t, ok, c.from)
		require.False(t, r.allows(listed{ImportPath: c.to, Standard: c.standard}), "%s → %s", c.from, c.to)
	}
	_, ok := ruleOf(module + "/etcdother")
	require.False(t, ok, "a package without a rule")
}

// TestTestsOfImportedPackagesBuildNoServer: go mod tidy also resolves what the tests of an imported package import. A test
// there that starts a server has every program download that server.
func TestTestsOfImportedPackagesBuildNoServer(t *testing.T) {
	lookAtSources(t)
	for _, of := range []string{farsync, "driver", "recipe", "farsynctest", "driver/drivertest", "adapt", "live", "etcd", "zk", "sqlite", "redis", "postgres", "mysql"} {
		for path := range list(t, "-test", "./"+of) {
			refused := below(path, module+"/embedtest") || slices.ContainsFunc(etcdServer, func(server string) bool {
				return below(path, server)
			})
			require.False(t, refused, "the tests of %s import %s: move them to a package that no program imports", of, path)
		}
	}
}

// ruleOf returns the rule of the package at an import path.
func ruleOf(path string) (rule, bool) {
	for _, r := range rules {
		if within(path, r.of) {
			return r, true
		}
	}
	return rule{}, false
}

// refused returns a shortest chain of imports from p to each package that it must not import. What only a refused one
// imports is not looked at.
func (r rule) refused(packages map[string]listed, p listed) [][]string {
	var found [][]string
	seen := map[string]bool{p.ImportPath: true}
	for next := [][]string{{p.ImportPath}}; len(next) > 0; next = next[1:] {
		chain := next[0]
		for _, path := range packages[chain[len(chain)-1]].Imports {
			if seen[path] {
				continue
			}
			seen[path] = true
			longer := append(slices.Clone(chain), path)
			if r.allows(packages[path]) {
				next = append(next, longer)
			} else {
				found = append(found, longer)
			}
		}
	}
	return found
}

func (r rule) allows(p listed) bool {
	if p.ours() {
		return slices.ContainsFunc(append(r.ours, r.of), func(of string) bool { return within(p.ImportPath, of) }) &&
			!slices.ContainsFunc(r.apart, func(of string) bool { return within(p.ImportPath, of) })
	}
	return !slices.ContainsFunc(r.never, func(path string) bool {
		return below(p.ImportPath, path) || path == thirdParty && !p.Standard
	})
}

// within reports whether the package at an import path is that of a rule, or below it. Only the root is by itself.
func within(path, of string) bool {
	if of == farsync {
		return path == module
	}
	return below(path, module+"/"+of)
}

func below(path, top string) bool {
	return path == top || strings.HasPrefix(path, top+"/")
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func (p listed) ours() bool { return below(p.ImportPath, module) }

// load lists the packages of the module and all that they import, without their tests.
func load(t *testing.T) map[string]listed {
	t.Helper()
	lookAtSources(t)
	packages := list(t, "./...")
	require.Contains(t, packages, module, "go list told nothing of the root package")
	return packages
}

// list lists packages and all that they import.
func list(t *testing.T, arguments ...string) map[string]listed {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-deps", "-json=ImportPath,Standard,Imports"}, arguments...)...)
	command.Dir = root
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	require.NoError(t, command.Run(), complaints.String())
	packages := map[string]listed{}
	for decoder := json.NewDecoder(&out); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		packages[p.ImportPath] = p
	}
	return packages
}

// lookAtSources makes go test see that this test depends on the module's sources. Else it would print the result of an
// earlier run from its cache, for it cannot know what go list reads.
func lookAtSources(t *testing.T) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("walk %s: %w", path, err)
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") || d.Name() == "go.mod":
			_, err = os.Stat(path)
		}
		return err
	}))
}
