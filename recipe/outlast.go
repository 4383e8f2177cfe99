package recipe

import (
	"context"
	"time"
)

// Outlast has the service keep what is held until the session runs out, also if the process dies and the service could
// tell sooner. Nil: it does. An error that the hold has ended with: nothing is held. Any other error: the service has not
// confirmed it, and the hold is held as before.
//
// The mark is the session's: it serves all that is held in it, and stays until the session is closed. So the service is
// asked once a session. A hold never changes its session, and a hold that was won in a later session asks for that session.
func (h *Hold) Outlast(ctx context.Context) error {
	in := h.grant.in()
	if err := h.Err(); err != nil || in.outlasts.Load() {
		return err // a hold that has ended leaves no mark
	}
	v := h.grant.store.try(ctx, in, func(ctx context.Context, _ int) error { return in.Session.Outlast(ctx) })
	if v.fate == done {
		in.outlasts.Store(true)
		return h.Err()
	}
	if err := h.Err(); err != nil {
		return err
	}
	return h.grant.store.failure(ctx, v)
}

// outlastUntil is Outlast for a caller that goes on without it when the time has come or the hold has ended.
func (h *Hold) outlastUntil(end time.Time) {
	ctx, cancel := context.WithDeadline(h.Life(), end)
	defer cancel()
	if ctx.Err() == nil {
		_ = h.Outlast(ctx)
	}
}
