// Package pause waits for a time, or for a context to end.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends, and then returns its cause.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	brakeFree  = 16 // so often a loop is let off
	brakeFirst = 20 * time.Millisecond
	brakeMost  = time.Second
)

// A Brake slows down a loop that waits, looks, and waits again, where the wait ends at once and the look finds nothing new,
// again and again. The zero value is ready.
type Brake struct {
	times int
	since time.Time // when the present wait began
}

// Woken is called when a wait has ended, with whether the look after it has found anything new. It returns at once, unless
// the last 16 waits were short and for nothing. Then it pauses, longer each time, up to a second.
func (b *Brake) Woken(ctx context.Context, news bool) {
	if news || time.Since(b.since) >= brakeMost {
		b.times = 0
	}
	if b.times++; b.times > brakeFree {
		_ = For(ctx, min(brakeFirst<<min(b.times-brakeFree-1, 10), brakeMost))
	}
	b.since = time.Now()
}
