package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestSignalEndsAViewThatNobodyReads: of a pipe that is full, and stays so.
func TestSignalEndsAViewThatNobodyReads(t *testing.T) {
	t.Parallel()
	store := file(t)
	s, closed := open(t, store)
	defer closed()
	_, err := farsync.NewElection(s, "/leader").Campaign(t.Context(), "it leads")
	require.NoError(t, err)
	byHand(t, store)(t,
		"INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES ('/stray', ?, 'exclusive', 1, 1, 0)", "stray")
	var all []*process
	for _, c := range []struct {
		before    string // is the last that it says before it writes
		arguments []string
	}{
		{"belongs to no session", []string{"watch"}},
		{"session open", []string{"watch", "--json", "-v"}},
		{"session open", []string{"leader", "-v", "--watch", "/leader"}},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			read, write, err := os.Pipe()
			require.NoError(t, err)
			defer read.Close()
			defer write.Close()
			fill(t, write)
			p := prepare(store, "farsync", c.arguments...)
			p.Stdout = write
			p.begin(t)
			all = append(all, p)
			until(t, "it writes", func() bool { return strings.Contains(p.err.String(), c.before) })
			require.NoError(t, p.Process.Signal(signal))
		}
	}
	for _, p := range all {
		require.Zero(t, p.code(t), "%q: %s", p.Args, p.err.String())
	}
}
