package postgres

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/farsync/farsync/internal/aside"
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

// budgetOf returns nil where no step of a session waits, as when the pool makes a connection that it is to keep.
func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgets{}).(*budget)
	return b
}

// spend has the functions that are called with a connection, and have no ctx, be waited for within the budget of ctx.
func spend(ctx context.Context, conn *pgconn.PgConn) { memoOf(conn).step = budgetOf(ctx) }

// spentBy returns what spend has noted. No other may use the connection meanwhile.
func spentBy(conn *pgconn.PgConn) *budget { return memoOf(conn).step }

// call calls a function of the config, and waits for it within the budget, or for grace where there is no budget. It
// returns nil once the function has returned, or why it was not waited for. Only the wait ends then: the function has no
// ctx of the step.
func (b *budget) call(hook *aside.Hook, log *slog.Logger, function string, f func()) error {
	most := grace
	if b != nil {
		most = max(time.Duration(b.left.Load()), 0)
		began := time.Now()
		defer func() { b.left.Add(-int64(time.Since(began))) }()
	}
	return hook.CallAs(context.Background(), log, function, most, func(context.Context) error {
		f()
		return nil
	})
}
