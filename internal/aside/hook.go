package aside

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// NotePanic says that a function of the program has panicked. It is called where the panic is recovered, so the stack has
// the function.
func NotePanic(log *slog.Logger, function string, value any) {
	log.Error("a function of the program has panicked", "function", function, "cause", fmt.Sprint(value), "stack", string(debug.Stack()))
}

// mostLate is how many calls of a Hook may be late at a time.
const mostLate = 8

// A Hook calls BeforeConnect, a function of the program that sets what a connection is made with: a password that another
// service gives out, say. Where that blocks no connection is made. But nobody waits for it for longer than for a server
// that does not answer: database/sql connects in the goroutine of a caller, whose ctx would not count, the pool of pgx
// connects by a ctx that never ends, and its Close waits for what connects, as a session of ZooKeeper does.
type Hook struct{ late atomic.Int32 }

// Call calls f, and waits for it until ctx ends, for at most so long. What f changes is to be used only if Call returns
// nil. A panic is logged, as that of every function of the program, and the connection is not made.
//
// Nothing ends a function that never returns, and its goroutine stays with it. As the next attempt to connect would add
// another, f is not called while mostLate are late.
func (h *Hook) Call(ctx context.Context, log *slog.Logger, most time.Duration, f func(ctx context.Context) error) error {
	return h.CallAs(ctx, log, "BeforeConnect", most, f)
}

// CallAs is Call for another function of the program, which the log and the error name. Each function has a Hook of its
// own: late calls of a function keep no other function from being called.
func (h *Hook) CallAs(ctx context.Context, log *slog.Logger, function string, most time.Duration, f func(ctx context.Context) error) error {
	if h.late.Load() >= mostLate {
		return fmt.Errorf("%s: %d calls have not returned, and no other is made before", function, mostLate)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	done := make(chan error, 1)
	var settled atomic.Bool // by who comes first: the function, or the end of ctx
	go func() {             // it ends with f
		err := fmt.Errorf("%s has ended its goroutine", function)
		defer func() {
			if cause := recover(); cause != nil {
				NotePanic(log, function, cause)
				err = fmt.Errorf("%s has panicked: %v", function, cause)
			}
			done <- err
			if !settled.CompareAndSwap(false, true) {
				h.late.Add(-1)
			}
		}()
		err = f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if !settled.CompareAndSwap(false, true) {
		return <-done
	}
	h.late.Add(1)
	return fmt.Errorf("%s has not returned in time: %w", function, context.Cause(ctx))
}
