//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// TestElectEndsWhenItIsToldToInALoss: a signal that ends COMMAND, while the lock is not renewed, ends elect, too.
func TestElectEndsWhenItIsToldToInALoss(t *testing.T) {
	suite.Long(t, suite.Command, "locks the file for longer than the TTL, and signals are to come before that ends")
	t.Parallel()
	s := onSQLite(t)()
	began := t.TempDir() + "/began"
	// The grace is long enough for a machine that is busy.
	p := start(t, s.store, "elect", "--ttl", "12s", "--grace", "6s", s.path, "--",
		"sh", "-c", "test -e "+began+" && exit 9; : >"+began+"; exec catcher 2")
	heard := func(times int) func() bool {
		return func() bool { return strings.Count(p.out.String(), "got SIGTERM\n") == times }
	}
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	s.freeze(t)
	until(t, "COMMAND is told to end", heard(1))
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	until(t, "COMMAND hears of the signal", heard(2))
	s.thaw()
	require.Equal(t, codeLost, p.code(t), p.err.String())
	require.NotContains(t, p.err.String(), "standing for election again")
}

// TestElectStandsAgainAfterAReload: SIGHUP has many daemons read their settings again, and says nothing of a loss that comes later.
func TestElectStandsAgainAfterAReload(t *testing.T) {
	suite.Long(t, suite.Command, "a TTL of 4 s, and the file locked for longer")
	t.Parallel()
	s := onSQLite(t)()
	began := t.TempDir() + "/began"
	p := start(t, s.store, "elect", "--ttl", "4s", s.path, "--", "sh", "-c", "test -e "+began+" && exit 9; : >"+began+"; exec catcher 2")
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	until(t, "COMMAND reads its settings", func() bool { return strings.Contains(p.out.String(), "got SIGHUP\n") })
	s.freeze(t)
	until(t, "COMMAND was ended", func() bool { return strings.Contains(p.err.String(), "standing for election again") })
	s.thaw()
	require.Equal(t, 9, p.code(t), p.err.String())
}

// TestASignalEndsTheRestOfTheTime of --at-least, also if another signal was passed on after it.
func TestASignalEndsTheRestOfTheTime(t *testing.T) {
	t.Parallel()
	p := start(t, file(t), "run", "--at-least", "10m", "/x", "--", "catcher", "2")
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	until(t, "COMMAND gets SIGTERM", func() bool { return strings.Contains(p.out.String(), "got SIGTERM\n") })
	require.NoError(t, p.Process.Signal(syscall.SIGUSR1))
	require.Equal(t, 3, p.code(t))
}

// TestALossAfterCommandIsNotItsOwn: COMMAND has done its work when the lock is lost in the rest of the time of --at-least.
func TestALossAfterCommandIsNotItsOwn(t *testing.T) {
	t.Parallel()
	store, status := file(t), filepath.Join(t.TempDir(), "status")
	observer, closed := open(t, store)
	defer closed()
	p := start(t, store, "run", "--at-least", "10m", "--leftovers", "leave", "--status", status, "/x", "--",
		"sh", "-c", "outliver & exit 3")
	until(t, "COMMAND has ended", func() bool { return strings.Contains(p.out.String(), "over\n") })
	list, err := observer.Participants(t.Context(), "/x")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, observer.Break(t.Context(), "/x", list[0].Token, nil))
	require.Equal(t, 3, p.code(t))
	require.Contains(t, p.err.String(), "COMMAND has ended, and the lock was lost after it")
	line, err := os.ReadFile(status)
	require.NoError(t, err)
	require.Contains(t, string(line), `"outcome":"ended","exit":3,`)
	require.Contains(t, string(line), `lost: broken by observer"`)
}
