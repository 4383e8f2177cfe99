//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusToAPipe: a pipe that nobody reads, or that is full, holds nothing up and changes no code; one that is read gets
// its line.
func TestStatusToAPipe(t *testing.T) {
	t.Parallel()
	store, pipe := file(t), filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	run := func() *process {
		p := start(t, store, "run", "--status", pipe, "/status", "--", "sh", "-c", "exit 3")
		require.Equal(t, 3, p.code(t), p.err.String())
		return p
	}
	require.Contains(t, run().err.String(), "the line cannot be written: it is a pipe that nobody reads: start what reads it before")

	reader := exec.Command("cat", pipe)
	var said buffer
	reader.Stdout = &said
	require.NoError(t, reader.Start())
	open, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	require.NoError(t, err)
	require.Empty(t, run().err.String())
	require.NoError(t, open.Close())
	require.NoError(t, reader.Wait())
	require.True(t, strings.HasPrefix(said.String(), `{"schema":1,"outcome":"ended","exit":3`), said.String())

	full, err := syscall.Open(pipe, syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = syscall.Close(full) }()
	for size := 4096; size > 0; {
		if _, err := syscall.Write(full, make([]byte, size)); err != nil { // until it would wait
			size /= 2
		}
	}
	require.Contains(t, run().err.String(), "the line cannot be written: it is a pipe that is full, and is not read")
}
