//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// fatal are the signals by which a user or a service manager ends a program.
var fatal = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// diesOf expects the command to die of a signal, and to leave no core. A shell shows that as exit code 128 and the signal, but goes on
// with a script only after a program that has exited with it.
func diesOf(t *testing.T, p *process, s syscall.Signal) {
	t.Helper()
	require.Equal(t, codeSignal+int(s), p.code(t), p.err.String())
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, status.Signaled(), "it has exited")
	require.False(t, status.CoreDump())
}

// TestFarsyncDiesOfTheSignalThatCommandDiesOf, if it was sent that.
func TestFarsyncDiesOfTheSignalThatCommandDiesOf(t *testing.T) {
	t.Parallel()
	for _, s := range fatal {
		p := start(t, file(t), "run", "--status", "/dev/stderr", "/x", "--", "sh", "-c", "echo go; exec sleep 600")
		until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
		require.NoError(t, p.Process.Signal(s))
		diesOf(t, p, s)
		require.Contains(t, p.err.String(), `"outcome":"ended"`)
	}
	// One that COMMAND has sent itself, or was sent by another, is told by the exit code.
	for _, name := range []string{"INT", "TERM", "HUP", "QUIT", "USR1"} {
		p := start(t, file(t), "run", "/x", "--", "sh", "-c", "ulimit -c 0; kill -"+name+" $$")
		require.Greater(t, p.code(t), codeSignal)
		require.True(t, p.ProcessState.Sys().(syscall.WaitStatus).Exited())
	}
	// One that COMMAND deals with has ended nothing.
	p := start(t, file(t), "run", "/x", "--", "catcher", "1")
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Equal(t, 3, p.code(t))
}

// TestFarsyncDiesOfTheSignalThatEndsItsWait for a lock.
func TestFarsyncDiesOfTheSignalThatEndsItsWait(t *testing.T) {
	t.Parallel()
	store := file(t)
	observer, closed := open(t, store)
	defer closed()
	lease, err := farsync.NewMutex(observer, "/x").Lock(t.Context())
	require.NoError(t, err)
	for _, s := range fatal {
		for _, arguments := range [][]string{{"run", "/x", "--", "true"}, {"hold", "--while", "1", "/x"}} {
			if s == syscall.SIGQUIT && arguments[0] == "hold" {
				continue // which leaves it to the runtime
			}
			p := start(t, store, arguments...)
			until(t, "it waits", func() bool {
				list, err := observer.Participants(t.Context(), "/x")
				return err == nil && len(list) == 2
			})
			require.NoError(t, p.Process.Signal(s))
			diesOf(t, p, s)
		}
	}
	require.NoError(t, lease.Release())
}
