// Package stdsql runs the named statements of sqlstore on what database/sql connects to.
package stdsql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/farsync/farsync/internal/sqlstore"
)

// A DB is a database with named statements. Each is prepared when it is first used: a process that lives for one lock
// uses few.
type DB struct {
	*sql.DB

	// Judge turns an error, of a COMMIT or of what came before it, into an error that says what it means for the attempt.
	// Of nil it makes nil, and it leaves alone what has an Outcome already.
	Judge func(err error, committing bool) error
	// Statements are made by sqlstore.Statements.
	Statements map[string][]string

	mu       sync.Mutex
	prepared map[string][]*sql.Stmt // by their names, once they are; closed with the DB
}

// Prepare prepares statements by their names, so that a transaction which uses them afterwards does not have to. If ctx
// ends before, it is NotDone.
func (d *DB) Prepare(ctx context.Context, names ...string) error {
	for _, name := range names {
		if _, err := d.prepare(ctx, name); err != nil {
			if ctx.Err() != nil {
				return sqlstore.NotDone(ctx)
			}
			return d.Judge(err, false)
		}
	}
	return nil
}

// Check reports whether all statements fit the tables as a transaction sees them.
func (d *DB) Check(ctx context.Context, tx *sql.Tx) error {
	for name, texts := range d.Statements {
		for _, text := range texts {
			statement, err := tx.PrepareContext(ctx, text)
			if err != nil {
				return fmt.Errorf("statement %s: %w", name, err)
			}
			_ = statement.Close()
		}
	}
	return nil
}

// prepare returns the statements of a name. Of two calls for one name at the same time the later closes its own.
func (d *DB) prepare(ctx context.Context, name string) ([]*sql.Stmt, error) {
	if all := d.known(name, nil); all != nil {
		return all, nil
	}
	var all []*sql.Stmt
	for _, text := range d.Statements[name] {
		statement, err := d.PrepareContext(ctx, text)
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("statement %s: %w", name, err)
		}
		all = append(all, statement)
	}
	first := d.known(name, all)
	if first[0] != all[0] {
		closeAll(all)
	}
	return first, nil
}

// known returns the statements of a name. If there are none yet, they are those given.
func (d *DB) known(name string, given []*sql.Stmt) []*sql.Stmt {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.prepared[name]; all != nil || given == nil {
		return all
	}
	if d.prepared == nil {
		d.prepared = map[string][]*sql.Stmt{}
	}
	d.prepared[name] = given
	return given
}

func closeAll(list []*sql.Stmt) {
	for _, statement := range list {
		_ = statement.Close()
	}
}

// Transact runs f in a transaction, and commits it if f returns nil. ctx bounds the wait for a connection, and nothing
// is committed once it has ended. The statements run without it: each is short, and COMMIT must not be broken off.
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
	all, err := d.prepare(ctx, name)
	if err != nil {
		return err
	}
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

// Query runs the statement of a name. The statement reads: it sees one state without a transaction. If ctx ends before
// its answer, it is NotDone, whether the statement was broken off or runs to its end.
func (d *DB) Query(ctx context.Context, f func(sqlstore.Rows) error, name string, args ...any) error {
	all, err := d.prepare(ctx, name)
	if err == nil {
		var rows *sql.Rows
		if rows, err = all[0].QueryContext(ctx, args...); err == nil {
			err = Read(rows, f)
		}
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
