package storetest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// retryAfter is how long a client of Mem waits before it asks again after the connection broke.
const retryAfter = 10 * time.Millisecond

var errUnanswered = errors.New("no answer: the connection broke")

// A link is the way between a client of Mem and its service.
type link struct {
	mem    *Mem
	client string

	mu  sync.Mutex
	cut chan struct{} // nil, or open until the partition is healed
}

// ask calls until it is answered, and reports whether an attempt before that may have been carried out. An error means
// that ctx has ended.
func (l *link) ask(ctx context.Context, kind OpKind, path string, carryOut func()) (unsure bool, err error) {
	for {
		if err := l.call(ctx, kind, path, carryOut); err == nil {
			return unsure, nil
		}
		unsure = true
		if err := sleep(ctx, retryAfter); err != nil {
			return true, errUnanswered
		}
	}
}

// call sends one request. An error means that no answer came, and that carryOut was called or not.
func (l *link) call(ctx context.Context, kind OpKind, path string, carryOut func()) error {
	if err := l.travel(ctx); err != nil {
		return err
	}
	switch l.mem.admit(Op{Kind: kind, Path: path, Client: l.client}) {
	case LoseRequest:
		return errUnanswered
	case LoseReply:
		carryOut()
		return errUnanswered
	}
	carryOut()
	if l.mem.delay() == 0 && l.connected() {
		return nil // an answer that is there is taken, also if ctx has ended meanwhile
	}
	return l.travel(ctx)
}

// travel waits for as long as a message takes from one end to the other.
func (l *link) travel(ctx context.Context) error {
	if ctx.Err() != nil {
		return errUnanswered
	}
	if d := l.mem.delay(); d > 0 {
		if err := sleep(ctx, d); err != nil {
			return errUnanswered
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
			return errUnanswered
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
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
