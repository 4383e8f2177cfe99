package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

func TestOutcome(t *testing.T) {
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.ErrorIs(t, NotDone(ctx), gone)
	for err, want := range map[error]driver.Outcome{
		ErrClosed:                         driver.Closed,
		ErrExpired:                        driver.Expired,
		ErrEnded:                          driver.Expired,
		driver.ErrGone:                    driver.Refused,
		driver.ErrConflict:                driver.Refused,
		fmt.Errorf("e: %w", ErrStray):     driver.Refused,
		NotDone(ctx):                      driver.NotDone,
		errors.New("anything else"):       driver.Unknown,
		context.Canceled:                  driver.Unknown,
		&Error{gone, driver.Refused}:      driver.Refused,
		&Error{errGoneAs, driver.NotDone}: driver.NotDone,
	} {
		require.Equal(t, want, Outcome(err), err)
		require.Equal(t, want, Outcome(fmt.Errorf("again: %w", err)), err)
	}
}

// errGoneAs is an answer whose Error knows more than it says.
var errGoneAs = fmt.Errorf("%w, they say", driver.ErrGone)

// A fake database answers with rows, several times if a transaction is repeated, and may go on after it has answered.
type fake struct {
	answers [][]int64
	err     error
}

func (f fake) run(_ context.Context, read func(Rows) error, _ string, _ ...any) error {
	for _, rows := range f.answers {
		if err := read(&numbers{rows: rows}); err != nil {
			return err
		}
	}
	return f.err
}

type numbers struct{ rows []int64 }

func (n *numbers) Next() bool { return len(n.rows) > 0 }
func (n *numbers) Err() error { return nil }
func (n *numbers) Scan(into ...any) error {
	*into[0].(*int64), n.rows = n.rows[0], n.rows[1:]
	return nil
}

func TestCollect(t *testing.T) {
	list, err := Collect(t.Context(), fake{answers: [][]int64{{1, 2}, {1, 2, 3}}}.run, scan1[int64], "any")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3}, list, "what a repeated transaction has found last")
	no := errors.New("no")
	list, err = Collect(t.Context(), fake{[][]int64{{1, 2}}, no}.run, scan1[int64], "any")
	require.ErrorIs(t, err, no)
	require.Nil(t, list)
	_, err = Collect(t.Context(), fake{answers: [][]int64{{1}}}.run, func(Rows) (int, error) { return 0, no }, "any")
	require.ErrorIs(t, err, no)

	v, err := one(list, nil, no)
	require.ErrorIs(t, err, no)
	require.Zero(t, v)
	v, err = one([]int64{7, 8}, nil, no)
	require.NoError(t, err)
	require.EqualValues(t, 7, v)
	_, err = one([]int64{7}, no, nil)
	require.ErrorIs(t, err, no)
}
