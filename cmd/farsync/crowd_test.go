//go:build linux

package main

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// TestCrowdOfCommandsIsServedOnABusyMachine: 150 programs of a crontab wait for one lock in a file, where other programs keep all processors
// busy. Each gets its turn. If those that wait to write looked often whether it is their turn, they would take the processors from the process that
// writes: turns would get longer, more processes would stand in line and look, and sessions and leases would be lost.
func TestCrowdOfCommandsIsServedOnABusyMachine(t *testing.T) {
	suite.Long(t, suite.Command, "has 150 processes wait for one another, in two minutes")
	for range 2 * runtime.NumCPU() {
		loop := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
		require.NoError(t, loop.Start())
		t.Cleanup(func() { // after the end of the test's context, which kills it
			_ = loop.Wait()
		})
	}
	store := file(t)
	var all []*process
	for range 150 {
		all = append(all, start(t, store, "run", "-q", "--wait", "120", "/x", "--", "true"))
	}
	for _, p := range all {
		<-p.done
	}
	codes := map[int]int{}
	for _, p := range all {
		codes[p.code(t)]++
	}
	require.Equal(t, map[int]int{0: len(all)}, codes)
}
