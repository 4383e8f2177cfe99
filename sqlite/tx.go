package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/sqlstore"
)

const (
	// A transaction that finds another connection in its way tries again after a random time of up to napMost, and after
	// naps of them, of up to restMost. SQLite's own waiting has steps of up to 100 ms, and then one process writes while the
	// others sleep.
	napMost  = 150 * time.Microsecond
	naps     = 50
	restMost = 5 * time.Millisecond
	// grace is what a transaction still has when its ctx ends, to say how it ended.
	grace = 50 * time.Millisecond
)

// transact runs f in one transaction, and runs it again while another connection stands in the way: BEGIN IMMEDIATE is the
// lock that makes all writers of a file take turns. One that reads sees one state of the file.
//
// It returns when ctx ends, or a moment later with the outcome. The transaction runs in a goroutine of its own, which Close
// joins, for a file system that is frozen holds a write up without end and hears of no ctx. There are no more of them under
// way than connections.
func (s *service) transact(ctx context.Context, reads bool, f func(*tx) error) error {
	done := make(chan error, 1)
	started := s.start(func() {
		if !reads {
			if err := s.take(ctx); err != nil {
				done <- err
				return
			}
			defer s.give()
		}
		err := s.attempt(ctx, reads, f)
		for n := 0; isBusy(err) && rest(ctx, n); n++ {
			// What stands in the way is worth more to a reader of the error than that ctx has ended.
			again := s.attempt(ctx, reads, f)
			if ctx.Err() == nil || s.Outcome(again) != driver.NotDone {
				err = again
			}
		}
		if isBusy(err) {
			err = &sqlstore.Error{Err: fmt.Errorf("%w: %w", context.Cause(ctx), err), Outcome: driver.NotDone}
		}
		done <- err
	})
	if !started {
		return sqlstore.ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return fmt.Errorf("%w: %w", errStuck, context.Cause(ctx))
	}
}

// rest waits after the n-th attempt, and reports whether ctx still lives. The times are random and do not grow at first, so that
// of several processes none falls behind by having waited for longer.
func rest(ctx context.Context, n int) bool {
	if n < naps {
		nap(rand.N(napMost))
	} else {
		_ = pause.For(ctx, rand.N(restMost))
	}
	return ctx.Err() == nil
}

// attempt runs f in a transaction. ctx bounds the wait for a connection, and nothing is committed once it has ended. The
// statements run without it: each is short, and COMMIT must not be broken off.
func (s *service) attempt(ctx context.Context, reads bool, f func(*tx) error) error {
	conn, err := s.db.Conn(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		return sqlstore.NotDone(ctx)
	case err != nil:
		return s.judge(err, false)
	}
	defer func() { _ = conn.Close() }()
	t := &tx{ctx: context.WithoutCancel(ctx), statements: s.statements}
	if t.raw, err = conn.BeginTx(t.ctx, &sql.TxOptions{ReadOnly: reads}); err != nil {
		return s.judge(err, false)
	}
	err = f(t)
	// A caller that has gone gets NotDone, which tells it more than Unknown.
	if err == nil && ctx.Err() != nil {
		err = sqlstore.NotDone(ctx)
	}
	if err != nil {
		_ = t.raw.Rollback()
		return s.judge(err, false)
	}
	return s.judge(t.raw.Commit(), true)
}

// A tx is one transaction.
type tx struct {
	ctx        context.Context // it never ends: see attempt
	raw        *sql.Tx
	statements map[string]*sql.Stmt
}

// Exec is that of sqlstore.Tx.
func (t *tx) Exec(name string, args ...any) (changed int64, err error) {
	result, err := t.raw.StmtContext(t.ctx, t.statements[name]).ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query is that of sqlstore.Tx.
func (t *tx) Query(row func(sqlstore.Row) error, name string, args ...any) error {
	rows, err := t.raw.StmtContext(t.ctx, t.statements[name]).QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
