//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

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

// TestReaderIsWaitedForOnce: a reader that has read nothing for as long as the last words may take is not waited for
// again, however often something is to be said before all that goes on. When it reads again, it is as before.
func TestReaderIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		v := speak(write)
		defer close(v.lines) // ends its goroutine
		defer read.Close()
		waits := func() time.Duration {
			_, err := io.WriteString(v, "a line\n")
			require.NoError(t, err)
			synctest.Wait()
			begun := time.Now()
			v.flush()
			return time.Since(begun)
		}
		require.Equal(t, lastWords, waits())
		require.Zero(t, waits())
		require.Zero(t, waits())
		text := make([]byte, 7)
		for range 3 {
			_, err := io.ReadFull(read, text)
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Equal(t, lastWords, waits(), "it has read")
	})
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
