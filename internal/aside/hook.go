package aside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// Safely calls a function of the program. If it panics, that is logged, and is its error.
func Safely(log *slog.Logger, function string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			NotePanic(log, function, cause)
			err = fmt.Errorf("%s has panicked: %v", function, cause)
		}
	}()
	return f()
}

// ErrLate is the error of a function that has not returned in time. It may yet use what it was given.
var ErrLate = errors.New("has not returned in time")

// ErrMany is the error of a function that was not called, for too many calls of it are late.
var ErrMany = errors.New("no other call is made before they return")

// mostLate is how many calls of a Hook may be late at a time where it does not say.
const mostLate = 8

// A Hook calls BeforeConnect, a function of the program that sets what a connection is made with: a password that another
// service gives out, say. Where that blocks no connection is made. But nobody waits for it for longer than for a server
// that does not answer: database/sql connects in the goroutine of a caller, whose ctx would not count, the pool of pgx
// connects by a ctx that never ends, and its Close waits for what connects, as a session of ZooKeeper does.
type Hook struct {
	// Most is how many calls may be late at a time; 0 stands for eight.
	Most int32

	late atomic.Int32
}

// Call calls f, and waits for it until ctx ends, for at most so long. What f changes is to be used only if Call returns
// nil. A panic is logged, as that of every function of the program, and the connection is not made.
//
// Nothing ends a function that never returns, and its goroutine stays with it. As the next attempt to connect would add
// another, f is not called while as many are late as may be.
func (h *Hook) Call(ctx context.Context, log *slog.Logger, most time.Duration, f func(ctx context.Context) error) error {
	return h.CallAs(ctx, log, "BeforeConnect", most, f)
}

// CallAs is Call for another function of the program, which the log and the error name. Each function has a Hook of its
// own: late calls of a function keep no other function from being called.
func (h *Hook) CallAs(ctx context.Context, log *slog.Logger, function string, most time.Duration, f func(ctx context.Context) error) error {
	if most := cmp.Or(h.Most, mostLate); h.late.Load() >= most {
		return fmt.Errorf("%s: %d calls are late: %w", function, most, ErrMany)
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	done := make(chan error, 1)
	var settled atomic.Bool // by who comes first: the function, or the end of ctx
	go func() {             // it ends with f
		err := fmt.Errorf("%s has ended its goroutine", function)
		defer func() {
			done <- err
			if !settled.CompareAndSwap(false, true) {
				h.late.Add(-1)
			}
		}()
		err = Safely(log, function, func() error { return f(ctx) })
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
	return fmt.Errorf("%s %w: %w", function, ErrLate, context.Cause(ctx))
}

// Connect is CallAs for a function that makes a connection. A connection that is made too late is closed.
func Connect[C io.Closer](
	ctx context.Context, h *Hook, log *slog.Logger, function string, most time.Duration, dial func(ctx context.Context) (C, error),
) (conn C, err error) {
	got := make(chan C, 1)
	err = h.CallAs(ctx, log, function, most, func(ctx context.Context) error {
		defer close(got)
		made, err := dial(ctx)
		if err == nil {
			got <- made
		}
		return err
	})
	switch {
	case err == nil:
		conn = <-got
	case errors.Is(err, ErrLate):
		go func() { // it ends with the function
			if late, ok := <-got; ok {
				_ = late.Close()
			}
		}()
	}
	return conn, err
}
