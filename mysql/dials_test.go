package mysql_test

import (
	"context"
	"crypto/rand"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/mysql"
)

// TestAnAttemptDialsOnce: a server that closes each connection at once, as a server that starts or a balancer without a
// server behind it does, is dialed once by each attempt. The Store decides when the next is made.
func TestAnAttemptDialsOnce(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	name := rand.Text()
	client.RegisterDialContext(name, func(context.Context, string) (net.Conn, error) {
		dials.Add(1)
		here, there := net.Pipe()
		_ = there.Close()
		return here, nil
	})
	t.Cleanup(func() { client.DeregisterDialContext(name) })
	service, err := mysql.NewService("root@"+name+"(nowhere)/test", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.Close()) })
	for attempt := range int64(3) {
		_, err = service.Open(t.Context(), time.Minute)
		require.Error(t, err)
		t.Logf("%d: %v, %v", dials.Load(), service.Outcome(err), err)
		require.Equal(t, attempt+1, dials.Load())
	}
	require.Error(t, service.End(t.Context(), "a session"))
	require.EqualValues(t, 4, dials.Load(), "by the connections of calls, too")
}

// TestDialerOfADSNKeepsNobody: a dialer that the program has registered for a DSN and that blocks, whatever its ctx says,
// panics or ends its goroutine is as a server that does not answer.
func TestDialerOfADSNKeepsNobody(t *testing.T) {
	t.Parallel()
	goes := make(chan struct{})
	t.Cleanup(func() { close(goes) })
	for does, what := range map[string]func(){
		"blocks":             func() { <-goes },
		"panics":             func() { panic("a bug") },
		"ends its goroutine": runtime.Goexit,
	} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			name := rand.Text()
			client.RegisterDialContext(name, func(context.Context, string) (net.Conn, error) {
				what()
				return nil, net.ErrClosed
			})
			t.Cleanup(func() { client.DeregisterDialContext(name) })
			service, err := mysql.NewService("root@"+name+"(nowhere)/test", nil)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			done := make(chan error, 3)
			go func() { // joined, or the test fails
				_, err := service.Open(ctx, time.Minute)
				done <- err
				done <- service.End(ctx, "a session")
				done <- service.Close()
			}()
			for _, call := range []string{"Open", "End", "Close"} {
				select {
				case err := <-done:
					require.Equal(t, call != "Close", err != nil, "%s: %v", call, err)
				case <-time.After(time.Minute):
					t.Fatal(call + " has not returned")
				}
			}
		})
	}
}
