//go:build unix

package embedtest

import (
	"context"
	"sync"
)

// A gate lets bytes pass while it is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !isClosed(g.opened) {
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if isClosed(g.opened) {
		g.opened = make(chan struct{})
	}
}

func (g *gate) isOpen() bool { return isClosed(g.whenOpen()) }

// await waits until the gate is open. It reports false when ctx is done instead.
func (g *gate) await(ctx context.Context) bool {
	select {
	case <-g.whenOpen():
		return true
	case <-ctx.Done():
		return false
	}
}

// whenOpen returns a channel that is closed now or with the next open.
func (g *gate) whenOpen() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
