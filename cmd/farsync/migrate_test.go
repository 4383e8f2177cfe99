//go:build unix

package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMigrateOfAServiceThatDoesNotAnswer: that no table can be made there is no refusal.
func TestMigrateOfAServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	hung := make(chan struct{})
	go func() { // until the listener is closed
		defer close(hung)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-hung
	})
	for _, store := range []string{"postgres://user@" + listener.Addr().String() + "/locks", "mysql://user@" + listener.Addr().String() + "/locks"} {
		p := start(t, store+"?migrate=1", "run", "-n", "-E", "0", "/x", "--", "true")
		require.Equal(t, codeUnavailable, p.code(t), p.err.String())
		require.Contains(t, p.err.String(), "the service does not answer")
	}
}
