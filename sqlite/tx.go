package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/turnstile"
)

const (
	// A transaction takes milliseconds. Whoever may write the file can put a trigger beside farsync's tables, or a
	// view in the place of one, whose statement never ends. SQLite breaks a statement off that has run for longest, or
	// whose caller's context ends, and gives the file's lock to write back.
	longest = 5 * time.Second
	// Where a statement was broken off this process writes nothing for as long as the transaction took, or restMost, so
	// that whoever drops the trigger gets a turn: the sqlite3 shell tries ten times a second.
	restMost = time.Second
)

// errEndless says why a transaction was ended: a statement of it ran for longest.
var errEndless = fmt.Errorf("a statement was broken off that did not end within %v: look for triggers and views that are not farsync's", longest)

// A transaction is what is done in one.
type transaction func(context.Context, *sql.Tx) error

// read runs a statement, which sees one state of the file. There are no more of them under way than connections. Like
// write, it returns when ctx ends, or a moment later with the outcome.
func (f *file) read(ctx context.Context, rows func(sqlstore.Rows) error, statement string, args ...any) error {
	return f.calls.Do(ctx, func() error {
		err := f.try(ctx, new(turnstile.Ticket), func() error {
			bound, cancel := context.WithTimeoutCause(ctx, longest, errEndless)
			defer cancel()
			return f.named(f.db.Query(bound, rows, statement, dated(args)...))
		})
		return cmp.Or(f.check(), err) // what a file without a name says, or cannot, is of no account
	})
}

// write runs a transaction that writes, by statements of these names. BEGIN IMMEDIATE is the lock that makes all
// writers of a file take turns. They come in order, by the gate: SQLite's own waiting has steps of up to 100 ms, and
// then one process writes while the others sleep. A turn is kept short: statements are prepared before it.
//
// Nothing is committed in a file that the path does not name any more, for it may have been granted to another in the
// file that is there.
func (f *file) write(ctx context.Context, do transaction, statements ...string) error {
	return f.calls.Do(ctx, func() error {
		err := f.try(ctx, new(turnstile.Ticket), func() error { return f.db.Prepare(ctx, statements...) })
		if err == nil {
			err = f.inTurn(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if err := do(ctx, tx); err != nil {
					return err
				}
				return f.check()
			})
		}
		if err != nil {
			err = cmp.Or(f.check(), err)
		}
		return err
	})
}

// inTurn runs a transaction while nothing else of this process writes.
func (f *file) inTurn(ctx context.Context, do transaction) error {
	ticket, err := f.gate.Join(ctx)
	if err != nil {
		return &sqlstore.Error{Err: err, Outcome: driver.NotDone}
	}
	if rest := time.Until(f.rests); rest > 0 {
		_ = pause.For(ctx, rest)
	}
	err = f.try(ctx, ticket, func() error {
		return f.db.Transact(ctx, func(_ context.Context, tx *sql.Tx) error { return f.bounded(ctx, do, tx) })
	})
	ticket.Leave(err == nil)
	return err
}

// bounded runs what is done in a transaction, up to its commit, until ctx ends or for longest. The caller has a ticket.
func (f *file) bounded(ctx context.Context, do transaction, tx *sql.Tx) error {
	bound, cancel := context.WithTimeoutCause(ctx, longest, errEndless)
	defer cancel()
	began := time.Now()
	err := do(bound, tx)
	if err == nil || bound.Err() == nil {
		return err
	}
	now := time.Now()
	f.rests = now.Add(min(now.Sub(began), restMost))
	if outcome(err) == driver.Unknown { // nothing is committed
		err = f.named(sqlstore.NotDone(bound))
	}
	return err
}

// named has the error of a statement that did not end say in which file that was.
func (f *file) named(err error) error {
	if errors.Is(err, errEndless) {
		err = &sqlstore.Error{Err: fmt.Errorf("%s: %w", f.path, errEndless), Outcome: driver.NotDone}
	}
	return err
}

// try makes an attempt, and another while another connection stands in the way. It tries until the file is not locked,
// or ctx ends. An error that says what stands in the way is worth more to its reader than an error that ctx has ended.
func (f *file) try(ctx context.Context, ticket *turnstile.Ticket, attempt func() error) error {
	var busy error
	for ticket.Wait(ctx) {
		err := attempt()
		switch {
		case isBusy(err):
			busy = err
		case busy == nil || ctx.Err() == nil || outcome(err) != driver.NotDone:
			return err
		}
	}
	return &sqlstore.Error{Err: fmt.Errorf("%w: %w", context.Cause(ctx), busy), Outcome: driver.NotDone}
}

// perform runs a statement, which may use the time and the boot. Within a transaction that writes, the time does not go
// back.
func (f *file) perform(
	ctx context.Context, tx *sql.Tx, rows func(sqlstore.Rows) error, statement string, args ...any,
) error {
	return f.db.Perform(ctx, tx, rows, statement, dated(args)...)
}

// dated puts the time and the boot before the arguments of a statement.
func dated(args []any) []any { return append([]any{machine.Clock(), machine.Boot()}, args...) }
