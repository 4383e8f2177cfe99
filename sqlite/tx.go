package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/turnstile"
)

// A transaction is what is done in one.
type transaction func(context.Context, *sql.Tx) error

// read runs a statement, which sees one state of the file. There are no more of them under way than connections. Like
// write, it returns when ctx ends, or a moment later with the outcome.
func (f *file) read(ctx context.Context, rows func(sqlstore.Rows) error, statement string, args ...any) error {
	return f.calls.Do(ctx, func() error {
		err := f.try(ctx, new(turnstile.Ticket), func() error { return f.db.Query(ctx, rows, statement, dated(args)...) })
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
	err = f.try(ctx, ticket, func() error { return f.db.Transact(ctx, do) })
	ticket.Leave(err == nil)
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
