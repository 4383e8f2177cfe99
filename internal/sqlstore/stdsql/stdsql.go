// Package stdsql runs the named statements of sqlstore on what database/sql connects to.
package stdsql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/farsync/farsync/internal/sqlstore"
)

// A DB is a database with prepared statements.
type DB struct {
	*sql.DB

	// Judge makes of an error, that of a COMMIT or of what came before it, one that says what it means for the attempt. Of nil it
	// makes nil, and it leaves alone what has an Outcome already.
	Judge func(err error, committing bool) error

	statements map[string][]*sql.Stmt
}

// Prepare prepares the statements of a file, once. It is not called by two goroutines at once, and Perform is called only after it.
func (d *DB) Prepare(ctx context.Context, file string) error {
	all := map[string][]*sql.Stmt{}
	for name, texts := range sqlstore.Statements(file) {
		for _, text := range texts {
			prepared, err := d.PrepareContext(ctx, text)
			if err != nil {
				return d.Judge(fmt.Errorf("statement %s: %w", name, err), false)
			}
			all[name] = append(all[name], prepared)
		}
	}
	d.statements = all
	return nil
}

// Prepared reports whether Prepare has been called, and has returned nil.
func (d *DB) Prepared() bool { return d.statements != nil }

// Transact runs f in a transaction, and commits it if f returns nil. ctx bounds the wait for a connection, and nothing is
// committed once it has ended. The statements run without it: each is short, and COMMIT must not be broken off.
func (d *DB) Transact(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	conn, err := d.Conn(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		return sqlstore.NotDone(ctx)
	case err != nil:
		return d.Judge(err, false)
	}
	defer func() { _ = conn.Close() }()
	endless := context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(endless, nil)
	if err != nil {
		return d.Judge(err, false)
	}
	err = f(endless, tx)
	// A caller that has gone gets NotDone, which tells it more than Unknown.
	if err == nil && ctx.Err() != nil {
		err = sqlstore.NotDone(ctx)
	}
	if err != nil {
		_ = tx.Rollback()
		return d.Judge(err, false)
	}
	return d.Judge(tx.Commit(), true)
}

// Perform runs the statements of a name in a transaction. All get the same arguments, and f reads the rows of the last.
func (d *DB) Perform(ctx context.Context, tx *sql.Tx, f func(sqlstore.Rows) error, name string, args ...any) error {
	all := d.statements[name]
	last := len(all) - 1
	for _, statement := range all[:last] {
		if _, err := tx.StmtContext(ctx, statement).ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	rows, err := tx.StmtContext(ctx, all[last]).QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	return Read(rows, f)
}

// Query runs the statement of a name, one that reads: it sees one state without a transaction. If ctx ends before its answer, it
// is NotDone, whether the statement was broken off or runs to its end.
func (d *DB) Query(ctx context.Context, f func(sqlstore.Rows) error, name string, args ...any) error {
	rows, err := d.statements[name][0].QueryContext(ctx, args...)
	if err == nil {
		err = Read(rows, f)
	}
	if err != nil && ctx.Err() != nil {
		return sqlstore.NotDone(ctx) // nothing was to be done
	}
	return d.Judge(err, false)
}

// Read has f read the rows, and reads what results come behind them: a procedure's error comes last.
func Read(rows *sql.Rows, f func(sqlstore.Rows) error) error {
	defer func() { _ = rows.Close() }()
	if err := f(rows); err != nil {
		return err
	}
	for rows.NextResultSet() {
	}
	return rows.Err()
}
