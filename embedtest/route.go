//go:build unix

package embedtest

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// A route is the way from a proxy to its server.
type route struct {
	network, target string

	// patience is for how long a refused connection is tried again: the client was connected when it reached the proxy
	// and cannot tell a server that is about to listen from a server that has failed.
	patience time.Duration

	// opening, if set, reads what each client says first and returns what the server is to be told in its place.
	opening func(io.Reader) ([]byte, error)
}

func (r route) dial(ctx context.Context) (net.Conn, error) {
	giveUp := time.Now().Add(r.patience)
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, r.network, r.target)
		if !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(giveUp) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
	}
}
