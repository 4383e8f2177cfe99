//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// A Proxy forwards TCP connections to one server and loses what it is told to lose. It lives in this process; give each
// client under test one of its own. Its methods may be called from any goroutine.
//
// A cut is a black hole as TCP sees one: connections stay open, new ones are accepted, and nothing is ever answered.
// Bytes under way are held back and arrive after Heal, in order, as TCP would send them again; to lose them, Reset.
// Likewise the end of a connection is not seen on the other side of a cut. Nothing passes after a cut has returned.
type Proxy struct {
	listener          net.Listener
	route             route
	requests, replies *gate

	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu          sync.Mutex // guards what follows
	closed      bool
	connections map[*connection]struct{}
}

// StartProxy starts a proxy on a free port of 127.0.0.1. The target is host:port or an http URL such as an Endpoint,
// and is dialed anew for each connection, so it need not listen yet.
func StartProxy(target string) (*Proxy, error) {
	target = strings.TrimSuffix(strings.TrimPrefix(target, "http://"), "/")
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("embedtest: StartProxy: %w", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("embedtest: StartProxy: %w", err)
	}
	return newProxy(listener, route{network: "tcp", target: target}), nil
}

func newProxy(listener net.Listener, route route) *Proxy {
	p := &Proxy{
		listener: listener, route: route,
		requests: newGate(), replies: newGate(),
		done:        make(chan struct{}),
		connections: make(map[*connection]struct{}),
	}
	p.wg.Go(p.accept) // joined by Close
	return p
}

// Addr returns the host:port that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut loses both directions.
func (p *Proxy) Cut() {
	p.CutRequests()
	p.CutReplies()
}

// CutRequests loses what clients send, including their attempts to connect. The answers of the server still arrive.
func (p *Proxy) CutRequests() {
	p.requests.shut()
	p.settle(func(c *connection) *pipe { return c.request })
}

// CutReplies loses what the server sends. Requests still arrive and take effect.
func (p *Proxy) CutReplies() {
	p.replies.shut()
	p.settle(func(c *connection) *pipe { return c.reply })
}

// Heal ends all cuts. Data that was held back arrives now.
func (p *Proxy) Heal() {
	p.requests.open()
	p.replies.open()
}

// Reset closes all connections on both sides at once, with an RST, and drops what was held back. Cuts stay.
func (p *Proxy) Reset() {
	for _, c := range p.snapshot() {
		c.reset()
	}
}

// Close resets all connections and stops listening. It returns when all goroutines have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	close(p.done)
	err := p.listener.Close()
	p.Reset()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		switch {
		case err == nil:
			ctx, cancel := context.WithCancel(context.Background()) // done when the connection is over
			c := &connection{proxy: p, client: client, cancel: cancel}
			if !p.add(c) {
				c.reset()
				return
			}
			p.wg.Go(func() { // joined by Close
				defer p.remove(c)
				c.run(ctx)
			})
		case errors.Is(err, net.ErrClosed):
			return
		default: // short of file descriptors: it passes
			select {
			case <-p.done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
}

func (p *Proxy) settle(which func(*connection) *pipe) {
	for _, c := range p.snapshot() {
		if pipe := c.pipe(which); pipe != nil {
			pipe.settle()
		}
	}
}

func (p *Proxy) snapshot() []*connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*connection, 0, len(p.connections))
	for c := range p.connections {
		all = append(all, c)
	}
	return all
}

func (p *Proxy) add(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.connections[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) remove(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
}
