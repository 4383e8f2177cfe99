package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A budget is the time that a step of a session, a renewal for example, has left to wait for the Tracer, OnNotice and
// OnPgError, which have no part in the step. Each call of them may take grace, and a step makes many: a renewal traces ten
// where its connection has to be made, and three for each key that it gives back. A step for which no time is left calls
// them and does not wait.
type budget struct{ left atomic.Int64 } // in ns; below 0 where two goroutines of the step wait at the same time

// budgets is where the ctx of a step has its budget.
type budgets struct{}

// budgeted gives the ctx of a step a budget, unless it is of a step that has one.
func budgeted(ctx context.Context) context.Context {
	if budgetOf(ctx) != nil {
		return ctx
	}
	b := new(budget)
	b.left.Store(int64(grace))
	return context.WithValue(ctx, budgets{}, b)
}

// budgetOf returns nil for what is no step of a session, as the making of a connection that the pool is to have.
func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgets{}).(*budget)
	return b
}

// spend has the functions that are called with a connection, and have no ctx, be waited for within the budget of ctx.
func spend(ctx context.Context, conn *pgconn.PgConn) { memoOf(conn).step = budgetOf(ctx) }

// spentBy returns what spend has noted. No other may use the connection meanwhile.
func spentBy(conn *pgconn.PgConn) *budget { return memoOf(conn).step }

// wait has f wait for no longer than it is told, which is grace where there is no budget.
func (b *budget) wait(f func(most time.Duration) error) error {
	if b == nil {
		return f(grace)
	}
	began := time.Now()
	err := f(max(time.Duration(b.left.Load()), 0))
	b.left.Add(-int64(time.Since(began)))
	return err
}
