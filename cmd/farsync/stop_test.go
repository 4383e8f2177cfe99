//go:build linux

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoppedCommandGoesOnWithTheGuard: without a terminal, SIGCONT undoes what SIGTSTP has done, and what is to end is not left
// stopped.
func TestStoppedCommandGoesOnWithTheGuard(t *testing.T) {
	t.Parallel()
	p := prepare(file(t), "farsync", "run", "/x", "--", "sh", "-c", "echo $$; exec sleep 600")
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.begin(t)
	var pid int
	until(t, "COMMAND is ready", func() (ready bool) {
		line, _, found := strings.Cut(p.out.String(), "\n")
		pid, _ = strconv.Atoi(line)
		return found
	})
	is := func(s byte) func() bool { return func() bool { return state(pid) == s } }
	require.NoError(t, p.Process.Signal(syscall.SIGTSTP))
	until(t, "COMMAND is stopped", is('T'))
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	until(t, "COMMAND goes on", is('S'))
	require.NoError(t, p.Process.Signal(syscall.SIGTSTP))
	until(t, "COMMAND is stopped", is('T'))
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, codeSignal+int(syscall.SIGTERM), p.code(t))
}

// TestLeftoversInOtherGroupsAreTold what COMMAND would be told, if it had not ended.
func TestLeftoversInOtherGroupsAreTold(t *testing.T) {
	t.Parallel()
	store := file(t)
	p := start(t, store, "run", "--on-ask", "term", "/x", "--", "sh", "-c", "setsid catcher 1 & exit 5")
	until(t, "it is waited for", func() bool { return strings.Contains(p.err.String(), "COMMAND has ended, and left 1 process:") })
	until(t, "it listens", func() bool { return strings.Contains(p.out.String(), "go\n") })
	require.Zero(t, start(t, store, "ask", "/x").code(t))
	require.Equal(t, 5, p.code(t))
	require.Contains(t, p.out.String(), "got SIGTERM\n")
}
