//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// TestCrowdOfCommandsIsServedOnABusyMachine: 150 programs of a crontab begin in the same moment to wait for one lock in a file, where other
// programs keep all processors busy. Each gets its turn. If processes that wait to write looked often whether it is their turn, they would take the
// processors from the process that writes: turns would get longer, more processes would stand in line and look, and sessions and leases would be lost.
func TestCrowdOfCommandsIsServedOnABusyMachine(t *testing.T) {
	suite.Long(t, suite.Command, "has 150 processes wait for one another, in two minutes")
	for range 2 * runtime.NumCPU() {
		loop := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		require.NoError(t, loop.Start())
		t.Cleanup(func() { // after the end of the test's context, which kills it
			_ = loop.Wait()
		})
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "locks.db") // on a disk, where turns take longer, and with the default TTL
	command, err := builtCommand()                              // it starts sooner than this program of tests
	require.NoError(t, err)
	begin, let, err := os.Pipe()
	require.NoError(t, err)
	defer begin.Close()
	var all []*process
	for range 150 {
		p := prepare(store, "sh", "-c", `read -r line; exec "$0" "$@"`, command, "run", "-q", "--wait", "60", "/x", "--", "true")
		p.Stdin = begin
		p.begin(t)
		all = append(all, p)
	}
	require.NoError(t, let.Close()) // each of the processes reads the end of its line
	for _, p := range all {
		<-p.done
	}
	codes := map[int]int{}
	for _, p := range all {
		codes[p.code(t)]++
	}
	require.Equal(t, map[int]int{0: len(all)}, codes)
}
