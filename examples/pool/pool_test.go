//go:build unix

package main

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/examples/internal/programtest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestNeverTooMany(t *testing.T) {
	for _, store := range []string{program.Etcd, program.ZooKeeper, program.SQLite} {
		t.Run(store, func(t *testing.T) {
			if store == program.ZooKeeper {
				programtest.NeedZooKeeper(t)
			}
			t.Parallel()
			status, out, errs := programtest.Run(t, "-store", store, "-processes", "4", "-jobs", "60", "-limit", "3", "-ttl", "30s")
			require.Zero(t, status, "%s%s", out, errs)
			require.Empty(t, errs)
			require.LessOrEqual(t, programtest.Count(t, out, "most at once"), 3, "no more")
			if suite.More(t, suite.Command) { // a slow machine may never come to as many
				require.Equal(t, 3, programtest.Count(t, out, "most at once"), "as many as may be")
			}
			require.Equal(t, 60, programtest.Count(t, out, "jobs done"))
			require.Zero(t, programtest.Count(t, out, "jobs done more than once"))
			require.Zero(t, programtest.Count(t, out, "entries left in the queue"))
			require.Contains(t, out, "Never too many.")
		})
	}
}

func TestWithoutTheLimitThereAreTooMany(t *testing.T) {
	suite.Long(t, suite.Command, "counts how many processes are at work at once")
	t.Parallel()
	status, out, _ := programtest.Run(t, "-no-limit", "-processes", "4", "-jobs", "60", "-limit", "3")
	require.Equal(t, program.Failed, status, out)
	require.Greater(t, programtest.Count(t, out, "most at once"), 3)
	require.Equal(t, 60, programtest.Count(t, out, "jobs done"))
	require.Contains(t, out, "where 3 are allowed")
}

func TestNoProcessIsLeft(t *testing.T) {
	suite.Long(t, suite.Command, "kills the program")
	programtest.NothingIsLeft(t, "processes begin", "-job", "1s")
}

func TestFlags(t *testing.T) {
	programtest.Flag(t, "-help", program.AllRight, "-limit")
	programtest.Flag(t, "--help", program.AllRight, "exit status")
	programtest.Flag(t, "-limit 0", program.Misused, "-limit 0: at least 1")
	programtest.Flag(t, "-processes 0", program.Misused, "-processes 0: 1 to 100")
	programtest.Flag(t, "-jobs 7", program.Misused, "-jobs 7: one for each process")
	programtest.Flag(t, "-job 2h", program.Misused, "up to a minute")
	programtest.Flag(t, "-store redis", program.Misused, `-store "redis": etcd, zk or sqlite`)
	programtest.Flag(t, "more", program.Misused, `"more"`)
	programtest.Flag(t, "worker", program.Misused, "started by pool")
	programtest.Flag(t, "-endpoints 127.0.0.1:1", program.Failed, "no etcd at 127.0.0.1:1")
}

func TestServerCounts(t *testing.T) {
	s := newServer(0)
	server := httptest.NewServer(s)
	defer server.Close()
	var all sync.WaitGroup
	for job := range 10 {
		all.Go(func() {
			if err := (part{Server: server.URL}).call(t.Context(), job); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.begin()
	s.begin()
	s.end(3, true)
	s.end(11, false)
	done, repeated, most := s.figures()
	require.Equal(t, 10, done)
	require.Equal(t, 1, repeated)
	require.GreaterOrEqual(t, most, 2)
	require.ErrorContains(t, program.Post(t.Context(), server.URL, url.Values{"job": {"none"}}), "400")
}

func TestProblemsAreFound(t *testing.T) {
	for _, test := range []struct {
		problem string
		spoil   func(o *outcome)
	}{
		{"", func(*outcome) {}},
		{"6 at once, where 5 are allowed", func(o *outcome) { o.most = 6 }},
		{"9 of 10 jobs were done", func(o *outcome) { o.done = 9 }},
		{"more than once: 1", func(o *outcome) { o.repeated = 1 }},
		{"entries left in the queue: 4", func(o *outcome) { o.left = 4 }},
	} {
		t.Run(test.problem, func(t *testing.T) {
			o := &outcome{options: options{processes: 2, jobs: 10, limit: 5}, done: 10, most: 5}
			test.spoil(o)
			if test.problem == "" {
				require.Empty(t, o.Problems())
				return
			}
			require.Contains(t, o.Table(), "WRONG")
			require.Contains(t, strings.Join(o.Problems(), "\n"), test.problem)
		})
	}
}
