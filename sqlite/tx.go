package sqlite

import (
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

// read runs a statement, which sees one state of the file. There are no more of them under way than connections. Like write,
// it returns when ctx ends, or a moment later with the outcome.
func (s *service) read(ctx context.Context, f func(sqlstore.Rows) error, statement string, args ...any) error {
	return s.calls.Do(ctx, func() error {
		return s.try(ctx, new(turnstile.Ticket), func() error { return s.db.Query(ctx, f, statement, dated(args)...) })
	})
}

// write runs f in a transaction that writes. BEGIN IMMEDIATE is the lock that makes all writers of a file take turns. They come in
// order, by the gate: SQLite's own waiting has steps of up to 100 ms, and then one process writes while the others sleep.
func (s *service) write(ctx context.Context, f transaction) error {
	return s.inTurn(ctx, func(ticket *turnstile.Ticket) error {
		return s.try(ctx, ticket, func() error { return s.db.Transact(ctx, f) })
	})
}

// inTurn calls f while nothing else of this service writes.
func (s *service) inTurn(ctx context.Context, f func(*turnstile.Ticket) error) error {
	return s.calls.Do(ctx, func() error {
		ticket, err := s.gate.Join(ctx)
		if err != nil {
			return &sqlstore.Error{Err: err, Outcome: driver.NotDone}
		}
		err = f(ticket)
		ticket.Leave(err == nil)
		return err
	})
}

// try makes an attempt, and another while another connection stands in the way. It tries until the file is not locked, or ctx ends. What
// stands in the way is worth more to a reader of the error than that ctx has ended.
func (s *service) try(ctx context.Context, ticket *turnstile.Ticket, attempt func() error) error {
	var busy error
	for ticket.Wait(ctx) {
		err := attempt()
		switch {
		case isBusy(err):
			busy = err
		case busy == nil || ctx.Err() == nil || s.Outcome(err) != driver.NotDone:
			return err
		}
	}
	return &sqlstore.Error{Err: fmt.Errorf("%w: %w", context.Cause(ctx), busy), Outcome: driver.NotDone}
}

// perform runs a statement, which may use the time and the boot. Within a transaction that writes, the time does not go back.
func (s *service) perform(
	ctx context.Context, tx *sql.Tx, f func(sqlstore.Rows) error, statement string, args ...any,
) error {
	return s.db.Perform(ctx, tx, f, statement, dated(args)...)
}

// dated puts the time and the boot before the arguments of a statement.
func dated(args []any) []any { return append([]any{machine.Clock(), machine.Boot()}, args...) }
