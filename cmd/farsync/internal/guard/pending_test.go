//go:build unix

package guard

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManySignalsHideNoOther: signals that nobody takes yet are told once each, in the order of their last.
func TestManySignalsHideNoOther(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	l := newLink(read)
	go l.read()
	for range 100 {
		_, err := write.Write([]byte{byte(syscall.SIGTSTP), byte(syscall.SIGWINCH)})
		require.NoError(t, err)
	}
	_, err = write.Write([]byte{byte(syscall.SIGTERM), byte(syscall.SIGTSTP), resumed})
	require.NoError(t, err)
	<-l.Resumed // all was read
	for _, want := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGTSTP} {
		require.Equal(t, want, <-l.Signals)
	}
	require.NoError(t, write.Close())
	<-l.Gone
	require.NoError(t, read.Close())
}
