package redis

import (
	"context"
	"net"
	"testing"

	client "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestCutLinkEndsNoSession: a request that is about to dial while Reset drops its connections was not sent, and the session
// lives on.
func TestCutLinkEndsNoSession(t *testing.T) {
	s, err := NewService(&client.UniversalOptions{Addrs: []string{"127.0.0.1:1"}}, nil)
	require.NoError(t, err)
	l := s.(*service).newLink()
	l.cut()
	_, err = l.dial(t.Context(), func(context.Context, string, string) (net.Conn, error) {
		t.Error("it dials")
		return nil, nil //nolint:nilnil // not reached
	}, "tcp", "127.0.0.1:1")
	require.Equal(t, driver.NotDone, s.Outcome(err))
}
