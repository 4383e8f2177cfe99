package farsynctest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

var (
	errUnanswered = errors.New("no answer")
	errNotSent    = errors.New("not sent")
)

// A link is the way between a client of Mem and its service.
type link struct {
	mem    *Mem
	client string

	mu  sync.Mutex
	cut chan struct{} // nil, or open until the partition is healed
}

// link returns the link of a client. The same name has the same link.
func (m *Mem) link(client string) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.links[client] == nil {
		m.links[client] = &link{mem: m, client: client}
	}
	return m.links[client]
}

// call makes one request, which carryOut does at the service. An error means that ctx has ended.
func (l *link) call(ctx context.Context, kind OpKind, carryOut func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	if err := l.travel(ctx); err != nil {
		return err
	}
	if err := l.mem.serve(ctx, kind, carryOut); err != nil {
		return err
	}
	if l.mem.delay() == 0 && l.connected() {
		return nil // an answer that is there is taken, also if ctx has ended meanwhile
	}
	return l.travel(ctx)
}

// travel waits for as long as a message takes from one end to the other.
func (l *link) travel(ctx context.Context) error {
	if d := l.mem.delay(); d > 0 {
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
	for {
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut == nil {
			return nil
		}
		select {
		case <-cut:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errUnanswered, context.Cause(ctx))
		}
	}
}

func (l *link) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut == nil
}

func (l *link) partition(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case cut && l.cut == nil:
		l.cut = make(chan struct{})
	case !cut && l.cut != nil:
		close(l.cut)
		l.cut = nil
	}
}

// sleep waits for d, or returns an error when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if err := pause.For(ctx, d); err != nil {
		return fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return nil
}
