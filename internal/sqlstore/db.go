package sqlstore

import "context"

// A DB runs functions in transactions, in the session of its driver. Its methods return when ctx ends; a function may still
// run then, so what it writes is read only after nil. It may run more than once.
type DB interface {
	// Update is for what writes: all transactions that write to a queue take turns.
	Update(ctx context.Context, f func(Tx) error) error
	// Read shows one state, no older than the call.
	Read(ctx context.Context, f func(Tx) error) error
	// Bury ends the sessions that are over among those with entries in a queue.
	Bury(ctx context.Context, queue string) error
}

// A Tx is a transaction. It runs statements by their names.
type Tx interface {
	// Exec returns how many rows were changed.
	Exec(name string, args ...any) (changed int64, err error)
	// Query calls row for each row.
	Query(row func(Row) error, name string, args ...any) error
}

// A Row is a row of the result of a statement, of database/sql or another library.
type Row interface{ Scan(into ...any) error }

// transaction runs f with Update or Read, and returns what it has found.
//
// If ctx ends while the database does not answer, f may still run, or run again, after transaction has returned. So found is
// its own until run has returned nil, and then it is no longer written to.
func transaction[T any](
	ctx context.Context, run func(context.Context, func(Tx) error) error, f func(Tx) (T, error),
) (v T, err error) {
	var found T
	err = run(ctx, func(t Tx) (err error) {
		found, err = f(t)
		return err
	})
	if err == nil {
		v = found
	}
	return v, err
}

// exec runs a statement that changes one row if its condition holds, and returns otherwise if it does not. The condition is
// part of the statement, so nothing can come between the look and the change.
func exec(t Tx, otherwise error, name string, args ...any) error {
	n, err := t.Exec(name, args...)
	if err == nil && n == 0 {
		err = otherwise
	}
	return err
}
