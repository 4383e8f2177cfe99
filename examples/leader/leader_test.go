//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/examples/internal/programtest"
	"github.com/farsync/farsync/internal/suite"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

func TestNeverTwoLead(t *testing.T) {
	suite.Long(t, suite.Command, "kills candidates, with a TTL of 2 s")
	for _, store := range []string{program.Etcd, program.ZooKeeper, program.SQLite} {
		t.Run(store, func(t *testing.T) {
			if store == program.ZooKeeper {
				programtest.NeedZooKeeper(t)
			}
			t.Parallel()
			status, out, errs := programtest.Run(t, "-store", store, "-kills", "2", "-reign", "300ms")
			require.Zero(t, status, "%s%s", out, errs)
			require.Empty(t, errs)
			require.Equal(t, 2, programtest.Count(t, out, "kills"))
			require.GreaterOrEqual(t, programtest.Count(t, out, "changes"), 2)
			require.GreaterOrEqual(t, programtest.Count(t, out, "seen by the observer"), 3)
			require.Zero(t, programtest.Count(t, out, "overlaps"))
			require.Zero(t, programtest.Count(t, out, "entries left in the queue"))
			t.Logf("longest without a leader: %v s", programtest.Seconds(t, out, "longest without a leader"))
			require.Equal(t, "yes", programtest.Figure(t, out, "tokens strictly increasing"))
			require.Contains(t, out, "Observer: candidate")
			require.Contains(t, out, "Never two led.")
		})
	}
}

func TestNoProcessIsLeft(t *testing.T) {
	suite.Long(t, suite.Command, "kills the program")
	programtest.NothingIsLeft(t, "(SIGKILL)", "-kills", "3", "-reign", "100ms", "-ttl", "5s")
}

func TestFlags(t *testing.T) {
	programtest.Flag(t, "-help", program.AllRight, "-kills")
	programtest.Flag(t, "--help", program.AllRight, "exit status")
	programtest.Flag(t, "-kills 0", program.Misused, "-kills 0: at least 1")
	programtest.Flag(t, "-reign 2h", program.Misused, "up to a minute")
	programtest.Flag(t, "-store redis", program.Misused, `-store "redis": etcd, zk or sqlite`)
	programtest.Flag(t, "more", program.Misused, `"more"`)
	programtest.Flag(t, "worker", program.Misused, "started by leader")
	programtest.Flag(t, "-endpoints 127.0.0.1:1", program.Failed, "no etcd at 127.0.0.1:1")
}

func TestResourceRefusesALateLeader(t *testing.T) {
	r := &resource{}
	server := httptest.NewServer(r)
	defer server.Close()
	early, late := part{Name: "early", Resource: server.URL}, part{Name: "late", Resource: server.URL}
	require.NoError(t, early.write(t.Context(), 5))
	require.NoError(t, late.write(t.Context(), 7))
	require.ErrorContains(t, early.write(t.Context(), 5), http.StatusText(http.StatusConflict))
	require.NoError(t, late.write(t.Context(), 7))
	require.Equal(t, 1, r.overlaps())
	require.True(t, r.increasing())
	require.Len(t, r.terms, 2)
	require.ErrorContains(t, program.Post(t.Context(), server.URL, url.Values{"token": {"none"}}), "400")
}

func TestProblemsAreFound(t *testing.T) {
	for _, test := range []struct {
		problem string
		spoil   func(o *outcome)
	}{
		{"", func(*outcome) {}},
		{"after one with a higher token: 1", func(o *outcome) { o.show.resource.write("a", 1) }},
		{"not higher than the one before", func(o *outcome) { o.show.resource.write("c", 2) }},
		{"0 changes after 1 kills", func(o *outcome) { o.show.resource.terms = o.show.resource.terms[:1] }},
		{"the observer has seen 0", func(o *outcome) { o.show.observed = 0 }},
		{"entries left in the queue: 4", func(o *outcome) { o.left = 4 }},
	} {
		t.Run(test.problem, func(t *testing.T) {
			o := &outcome{show: &show{resource: &resource{}, observed: 2, vacancies: []time.Duration{time.Second}}}
			o.show.options.kills, o.show.options.service.TTL = 1, time.Second
			o.show.resource.write("a", 1)
			o.show.resource.write("b", 2)
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
