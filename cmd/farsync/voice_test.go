//go:build unix

package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// piped starts the command with a pipe for standard error, of which the test has both ends.
func piped(t *testing.T, store string, arguments ...string) (p *process, read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = read.Close()
		_ = write.Close()
	})
	p = prepare(store, "farsync", arguments...)
	p.Stderr = write
	p.begin(t)
	until(t, "COMMAND is ready", func() bool { return strings.Contains(p.out.String(), "go\n") })
	return p, read, write
}

// TestCommandOutlivesTheReaderOfStandardError: a line that nobody can read any more ends neither farsync nor COMMAND.
func TestCommandOutlivesTheReaderOfStandardError(t *testing.T) {
	t.Parallel()
	store := file(t)
	p, read, write := piped(t, store, "run", "--on-ask", "term", "/x", "--", "catcher", "1")
	require.NoError(t, write.Close())
	require.NoError(t, read.Close())
	require.Zero(t, start(t, store, "ask", "/x").code(t))
	require.Equal(t, 3, p.code(t))
	require.Contains(t, p.out.String(), "got SIGTERM\n")
}

// TestFullStandardErrorHoldsNothingUp: while a line waits for a reader, COMMAND is told what it is to be told, and the end of its lock
// moves on.
func TestFullStandardErrorHoldsNothingUp(t *testing.T) {
	t.Parallel()
	store := file(t)
	command := "exec catcher 1"
	if suite.More(t, suite.Command) { // waits for half of the TTL
		command = "trap : TERM; catcher 1; trap - TERM; exec renewed 2"
	}
	p, _, write := piped(t, store, "run", "--ttl", "20s", "--on-ask", "term", "/x", "--", "sh", "-c", command)
	fill(t, write)
	require.Zero(t, start(t, store, "ask", "/x").code(t))
	require.Equal(t, 3, p.code(t))
	require.Contains(t, p.out.String(), "got SIGTERM\n")
}

// fill writes into a pipe until it takes no more.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	control, err := pipe.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, control.Control(func(fd uintptr) {
		// The processes that have inherited it are to wait, as they do for any other.
		defer func() { require.NoError(t, syscall.SetNonblock(int(fd), false)) }()
		require.NoError(t, syscall.SetNonblock(int(fd), true))
		for size := 4096; size > 0; {
			if _, err := syscall.Write(int(fd), make([]byte, size)); errors.Is(err, syscall.EAGAIN) {
				size /= 2
			}
		}
	}))
}
