//go:build unix

package embedtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A pipe carries the bytes of one direction of one connection through a gate.
type pipe struct {
	from, to net.Conn
	gate     *gate
	back     *gate // of the other direction

	// passing is held while bytes are written: with the gate shut and passing taken once, nothing passes any more.
	// The write may have to wait for the receiver; settle cuts that wait short.
	passing sync.Mutex
}

// run sends first what is pending and then what comes, until the sender has no more, the receiver takes no more, or ctx
// is done. It reports whether the sender ended in good order. An end is news like any other: run returns only when the
// news may pass to the other side.
func (p *pipe) run(ctx context.Context, pending []byte) (orderly bool) {
	if !p.pass(ctx, pending) {
		return false
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.from.Read(buffer)
		if !p.pass(ctx, buffer[:n]) {
			return false
		}
		if err != nil {
			return p.gate.await(ctx) && errors.Is(err, io.EOF)
		}
	}
}

// settle returns when no byte is under way through a gate that has been shut before.
func (p *pipe) settle() {
	_ = p.to.SetWriteDeadline(time.Unix(1, 0))
	p.passing.Lock()
	defer p.passing.Unlock()
	_ = p.to.SetWriteDeadline(time.Time{})
}

// pass writes all of data, while the gate is open. It reports false when the receiver takes no more or ctx is done.
func (p *pipe) pass(ctx context.Context, data []byte) bool {
	for len(data) > 0 {
		if !p.gate.await(ctx) {
			return false
		}
		n, err := p.passOnce(data)
		data = data[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			p.back.await(ctx)
			return false
		}
	}
	return true
}

func (p *pipe) passOnce(data []byte) (int, error) {
	p.passing.Lock()
	defer p.passing.Unlock()
	if !p.gate.isOpen() { // shut since we looked
		return 0, nil
	}
	return p.to.Write(data)
}
