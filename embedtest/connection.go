//go:build unix

package embedtest

import (
	"context"
	"net"
	"sync"
)

// A connection is one client's connection through a Proxy.
type connection struct {
	proxy  *Proxy
	client net.Conn
	cancel context.CancelFunc // of the ctx of run

	mu             sync.Mutex // guards what follows
	over           bool
	server         net.Conn // nil until dialed
	request, reply *pipe    // likewise
}

// run forwards until both sides have ended, or either has failed, or reset is called.
func (c *connection) run(ctx context.Context) {
	defer c.reset()
	pending, ok := c.open(ctx)
	if !ok {
		return
	}
	var requests bool
	var wg sync.WaitGroup
	wg.Go(func() { requests = c.forward(ctx, c.request, pending) })
	replies := c.forward(ctx, c.reply, nil)
	wg.Wait()
	if requests && replies {
		c.end(func(conn net.Conn) { _ = conn.Close() })
	}
}

// reset closes both sides with an RST. It does nothing to a connection that is over.
func (c *connection) reset() {
	c.end(func(conn net.Conn) {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	})
}

func (c *connection) end(how func(net.Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	c.cancel()
	how(c.client)
	if c.server != nil {
		how(c.server)
	}
}

// pipe returns the pipe that is asked for, or nil when there is none yet: then the connection has not looked at its
// gate either.
func (c *connection) pipe(which func(*connection) *pipe) *pipe {
	c.mu.Lock()
	defer c.mu.Unlock()
	return which(c)
}

// open connects to the server as soon as requests may pass.
func (c *connection) open(ctx context.Context) (pending []byte, ok bool) {
	p := c.proxy
	if p.route.opening != nil {
		var err error
		if pending, err = p.route.opening(c.client); err != nil {
			return nil, false
		}
	}
	if !p.requests.await(ctx) {
		return nil, false
	}
	server, err := p.route.dial(ctx)
	if err != nil {
		p.replies.await(ctx) // the refusal is a reply too
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		_ = server.Close()
		return nil, false
	}
	c.server = server
	c.request = &pipe{from: c.client, to: server, gate: p.requests, back: p.replies}
	c.reply = &pipe{from: server, to: c.client, gate: p.replies, back: p.requests}
	return pending, true
}

// forward reports whether the sender of the pipe ended in good order. If not, it resets the connection.
func (c *connection) forward(ctx context.Context, p *pipe, pending []byte) bool {
	if !p.run(ctx, pending) {
		c.reset()
		return false
	}
	if half, ok := p.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	return true
}
