package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/suite"
)

// TestLoads has the loads of every store played for a moment, with few callers, by farsync and by the stock locks. Loads that differ in
// numbers alone are left out.
func TestLoads(t *testing.T) {
	suite.Long(t, suite.Etcd, "callers of all loads, for a moment each")
	suite.Long(t, suite.ZooKeeper, "callers of all loads, for a moment each")
	suite.Long(t, suite.Redis, "callers of all loads, for a moment each")
	suite.Long(t, suite.Postgres, "callers of all loads, for a moment each")
	suite.Long(t, suite.MySQL, "callers of all loads, for a moment each")
	suite.Long(t, suite.SQLite, "callers of all loads, for a moment each")
	moment := scale{
		row: 30 * time.Millisecond, visits: 30 * time.Millisecond, first: 10 * time.Millisecond, most: time.Minute, callers: 3, part: 1_000_000, runs: 2,
	}
	larger := regexp.MustCompile(`Stores=(1|64)$|callers=10000|processes=(64|150)$`)
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel() // waiting for the end of a session that was killed is most of it
			l := &lab{scale: moment, on: siteFor(t, siteSpec{store: store}), kept: map[string]account{}}
			t.Cleanup(func() {
				if l.binary != "" {
					require.NoError(t, os.Remove(l.binary))
				}
			})
			for _, one := range loads(store) {
				if larger.MatchString(one.name) {
					continue
				}
				o, err := one.play(t.Context(), l)
				require.NoError(t, err, one.name)
				require.NotZero(t, o.ours.callers, one.name)
				require.Len(t, o.cells(), 11)
				for _, a := range []account{o.ours, o.stock} {
					require.Empty(t, a.errors, one.name)
					require.GreaterOrEqual(t, a.free, time.Duration(0), one.name)
					if o.served {
						require.EqualValues(t, a.callers, a.grants, one.name)
					}
				}
			}
		})
	}
}

// TestMissedBoundsAreNamed: a line is red for what was missed, and for nothing else.
func TestMissedBoundsAreNamed(t *testing.T) {
	good := outcome{least: 80, leastRate: 7, ours: account{callers: 64, grants: 80, took: 10 * time.Second, gaveUp: 120, late: 1, worst: 30 * time.Millisecond, peak: 64 * mostGoroutines, free: mostFree}}
	require.Empty(t, good.misses())
	for _, row := range []struct {
		want string
		is   func(*account)
	}{
		{"79 of at least 80", func(a *account) { a.grants = 79 }},
		{"5 a second of at least 7", func(a *account) { a.took = 16 * time.Second }},
		{"3 calls late, by up to 30ms", func(a *account) { a.late = 3 }},
		{"6.0 goroutines a caller", func(a *account) { a.peak = 6 * 64 }},
		{"free after 2.1 s", func(a *account) { a.free = 2100 * time.Millisecond }},
		{"not free after 1m0s", func(a *account) { a.free = -1 }},
		{"sessions lost", func(a *account) { a.sessions = 1 }},
		{"other leases lost", func(a *account) { a.leases = 1 }},
	} {
		bad := good
		row.is(&bad.ours)
		require.Equal(t, []string{row.want}, bad.misses())
	}
}

// TestLeastGrants: callers with a Store each are compared with the stock lock, and with patient callers if they wait for longer.
func TestLeastGrants(t *testing.T) {
	patiently, stockly := account{grants: 1000}, account{grants: 600}
	for _, row := range []struct {
		clients int
		span    span
		want    int64
	}{{1, instant, 800}, {3, longer, 800}, {64, instant, 300}, {64, soonGone, 500}, {64, patient, 500}} {
		require.Equal(t, row.want, task{clients: row.clients, callers: 64, span: row.span}.least(patiently, stockly))
	}
}

// TestCallsAreCountedByHowTheyEnd: whoever gave up has no error, but for what is in the chain beside it.
func TestCallsAreCountedByHowTheyEnd(t *testing.T) {
	var a account
	soon := time.Now().Add(time.Minute)
	a.called(nil, time.Time{})
	a.called(context.DeadlineExceeded, soon)
	a.called(errors.Join(context.DeadlineExceeded, farsync.ErrUnavailable), soon)
	a.called(fmt.Errorf("no: %w", farsync.ErrLost), soon)
	a.called(errors.New("what|else"), time.Now().Add(-time.Minute))
	require.EqualValues(t, 2, a.gaveUp)
	require.EqualValues(t, 1, a.late)
	require.Equal(t, map[string]int64{"unavailable": 1, "lost": 1, "what/else": 1}, a.errors)
}
