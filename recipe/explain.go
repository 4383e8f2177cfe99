package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/nested"
)

// Explain has the entries of the leases on s that ctx stands for say what their holder waits for before it gives them
// back: one line of printable text, of 256 bytes at most. WaitsFor returns the line to others, who may wonder why a lock
// is held for so long. No further turn begins on the entries.
//
// Whether that succeeds or not, the leases are as they were. An entry that was changed by another client, which may
// have left a message there, is not changed. Explain returns when ctx is done or the lease has ended. The error wraps
// errors.ErrUnsupported if the service cannot change the value of such an entry: a writer's on etcd, where a key that
// was put again is a reader's, and a candidate's, whose value is the user's.
func Explain(ctx context.Context, s *Store, waitsFor string) error {
	if checkedNote(waitsFor) != waitsFor {
		return fmt.Errorf("%w: not one line of %d bytes at most", ErrTooLarge, maxNote)
	}
	var errs []error
	for lease := range nested.All(ctx) {
		over, ok := lease.(interface{ Hold() *Hold })
		if !ok {
			continue
		}
		if h := over.Hold(); h != nil && h.grant.store == s {
			errs = append(errs, h.explain(ctx, waitsFor))
		}
	}
	return errors.Join(errs...)
}

// WaitsFor returns what the holder of an entry waits for before it gives the lock back, as far as it has said so with
// Explain.
func WaitsFor(e driver.Entry) string { return wordsOf(e).waits }

// explain is Explain for one hold.
func (h *Hold) explain(ctx context.Context, waitsFor string) error {
	ctx, cancel := bind(ctx, h.Life())
	defer cancel()
	select {
	case h.alone <- struct{}{}: // the version of an entry that Change is about to replace is not known
		defer func() { <-h.alone }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := h.Err(); err != nil {
		return err
	}
	p := h.grant.place.Load()
	switch {
	case p.entry.Kind == driver.Candidate:
		return errors.ErrUnsupported
	case h.unsure:
		return ErrUncertain
	case !h.grant.pin(h.turn):
		return ErrReleased
	}
	w := wordsOf(p.entry)
	w.turn, w.waits = h.turn, waitsFor
	return h.grant.store.rewrite(ctx, h.grant, p, p.entry.Version, w)
}
