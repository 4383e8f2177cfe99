package stdsqltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/sqlstore"
	"github.com/farsync/farsync/internal/sqlstore/stdsql"
)

const statements = `
-- name: put
INSERT INTO parents VALUES (?1);
INSERT INTO children VALUES (?1, ?1);
SELECT count(*) FROM children
-- name: orphan
INSERT INTO children VALUES (?1, ?1) RETURNING id
-- name: all
SELECT id FROM children ORDER BY id
-- name: long
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) SELECT count(*) FROM n
`

// judged is what Judge makes of an error: where it was.
type judged struct {
	error
	committing bool
}

func (j judged) Unwrap() error { return j.error }

func judge(err error, committing bool) error {
	if err == nil || sqlstore.Outcome(err) != driver.Unknown {
		return err
	}
	return judged{err, committing}
}

// newDB returns a database in which a child without its parent is found only by COMMIT.
func newDB(t *testing.T) *stdsql.DB {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db")+"?_pragma=foreign_keys(1)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(2)
	_, err = db.ExecContext(t.Context(), `CREATE TABLE parents (id INTEGER PRIMARY KEY);
		CREATE TABLE children (id INTEGER PRIMARY KEY, parent REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)`)
	require.NoError(t, err)
	return &stdsql.DB{DB: db, Judge: judge, Statements: sqlstore.Statements(statements)}
}

// perform runs a statement in a transaction of its own, and returns the first column of its rows.
func perform(ctx context.Context, d *stdsql.DB, name string, args ...any) (list []int, err error) {
	err = d.Transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return d.Perform(ctx, tx, scan(&list), name, args...)
	})
	return list, err
}

func scan(list *[]int) func(sqlstore.Rows) error {
	return func(rows sqlstore.Rows) error {
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			*list = append(*list, n)
		}
		return rows.Err()
	}
}

func all(t *testing.T, d *stdsql.DB) []int {
	var list []int
	require.NoError(t, d.Query(t.Context(), scan(&list), "all"))
	return list
}

// TestPerform runs all statements of a name with the same arguments, and reads the last one's rows.
func TestPerform(t *testing.T) {
	d := newDB(t)
	for n := 1; n <= 2; n++ {
		list, err := perform(t.Context(), d, "put", n)
		require.NoError(t, err)
		require.Equal(t, []int{n}, list)
	}
	require.Equal(t, []int{1, 2}, all(t, d))
	_, err := perform(t.Context(), d, "put", 2)
	require.ErrorContains(t, err, "UNIQUE", "of the first of them")
	require.Equal(t, []int{1, 2}, all(t, d))
}

// TestPrepareNamesTheStatement that does not fit, and so do Check, Query and Perform. The others can be used all the same.
func TestPrepareNamesTheStatement(t *testing.T) {
	fit := newDB(t)
	check := func(d *stdsql.DB) error { return d.Transact(t.Context(), d.Check) }
	require.NoError(t, check(fit))
	d := &stdsql.DB{DB: fit.DB, Judge: judge, Statements: sqlstore.Statements(statements + "-- name: wrong\nSELECT none FROM children\n")}
	require.NoError(t, d.Prepare(t.Context(), "put", "all"))
	_, performed := perform(t.Context(), d, "wrong")
	for _, err := range []error{
		d.Prepare(t.Context(), "put", "wrong"), check(d), performed, d.Query(t.Context(), scan(new([]int)), "wrong"),
	} {
		require.ErrorContains(t, err, "statement wrong: ")
		require.ErrorAs(t, err, &judged{})
	}
	require.Empty(t, all(t, d))
}

// TestPreparedOnce: callers that come at the same time share statements.
func TestPreparedOnce(t *testing.T) {
	d := newDB(t)
	var callers errgroup.Group
	for range 10 {
		callers.Go(func() error {
			if err := d.Prepare(t.Context(), "put", "all"); err != nil {
				return err
			}
			return d.Query(t.Context(), scan(new([]int)), "all")
		})
	}
	require.NoError(t, callers.Wait())
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.NoError(t, d.Prepare(ctx, "put"), "it is")
	err := d.Prepare(ctx, "long")
	require.ErrorIs(t, err, gone)
	require.Equal(t, driver.NotDone, sqlstore.Outcome(err))
}

// TestFailedTransactionIsRolledBack, and Judge learns whether it had come to its COMMIT.
func TestFailedTransactionIsRolledBack(t *testing.T) {
	d := newDB(t)
	mine := errors.New("of the caller")
	err := d.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var list []int
		if err := d.Perform(ctx, tx, scan(&list), "put", 1); err != nil {
			return err
		}
		return mine
	})
	require.ErrorIs(t, err, mine)
	var at judged
	require.ErrorAs(t, err, &at)
	require.False(t, at.committing)

	list, err := perform(t.Context(), d, "orphan", 7)
	require.Equal(t, []int{7}, list)
	require.ErrorAs(t, err, &at)
	require.True(t, at.committing)
	require.Empty(t, all(t, d))
}

// TestEndedContextCommitsNothing: before it began, while it waits for a connection, and before COMMIT. It is NotDone.
func TestEndedContextCommitsNothing(t *testing.T) {
	d := newDB(t)
	gone := errors.New("the caller has gone")
	ended := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, gone)
		require.Equal(t, driver.NotDone, sqlstore.Outcome(err))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended(d.Transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var list []int
		err := d.Perform(ctx, tx, scan(&list), "put", 1)
		cancel(gone)
		require.NoError(t, ctx.Err(), "statements run to their end")
		return err
	}))
	never := func(context.Context, *sql.Tx) error {
		t.Error("it ran")
		return nil
	}
	ended(d.Transact(ctx, never))

	for range 2 { // all there are
		conn, err := d.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- d.Transact(ctx, never) }() // joined below
	require.Empty(t, waits)
	cancel(gone)
	ended(<-waits)
	require.NoError(t, t.Context().Err())
}

// TestQueryEndsWithItsContext: before it began, while it waits for a connection, and while it runs. The connections serve others then.
func TestQueryEndsWithItsContext(t *testing.T) {
	d := newDB(t)
	gone := errors.New("the caller has gone")
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), after, gone)
		var all errgroup.Group
		for range 3 { // one more than there are connections
			all.Go(func() error {
				var list []int
				err := d.Query(ctx, scan(&list), "long")
				if after > 0 && slices.Equal(list, []int{300_000}) || errors.Is(err, gone) && sqlstore.Outcome(err) == driver.NotDone {
					return nil // it may come to its end all the same
				}
				return fmt.Errorf("after %v: %v, %w", after, list, err)
			})
		}
		require.NoError(t, all.Wait())
		cancel()
		for n := range 4 {
			_, err := perform(t.Context(), d, "put", int(after)+n)
			require.NoError(t, err)
		}
	}
	require.Len(t, all(t, d), 12)
}

// TestReadReturnsWhatComesLast: an error behind the rows, and that of the reader before it.
func TestReadReturnsWhatComesLast(t *testing.T) {
	d := newDB(t)
	_, err := perform(t.Context(), d, "put", 1)
	require.NoError(t, err)
	rows, err := d.QueryContext(t.Context(), "SELECT id FROM children")
	require.NoError(t, err)
	mine := errors.New("of the reader")
	require.ErrorIs(t, stdsql.Read(rows, func(sqlstore.Rows) error { return mine }), mine)
	require.ErrorContains(t, rows.Scan(new(int)), "closed")
}
