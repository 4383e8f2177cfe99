//go:build unix

package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/pause"
)

// held is an owner of entries of anybody's making.
type held []driver.Entry

func (h held) GuardEntries() ([]driver.Entry, error) { return h, nil }

// guarded sets the balance if the guard allows it.
func (o operator) guarded(lease farsync.Guarded, balance int) error {
	tx, err := o.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := Guard(context.Background(), tx, lease); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE accounts SET balance = ?", balance); err != nil {
		return err
	}
	return tx.Commit()
}

func newAccount(t testing.TB, file string) operator {
	user := newOperator(t, file)
	user.exec(t, "CREATE TABLE accounts (balance INTEGER)")
	user.exec(t, "INSERT INTO accounts VALUES (0)")
	return user
}

func (o operator) balance(t testing.TB) (n int) {
	require.NoError(t, o.db.QueryRow("SELECT balance FROM accounts").Scan(&n))
	return n
}

func TestGuardCommitsOnlyWhileHeld(t *testing.T) {
	file := newFile(t)
	user := newAccount(t, file)
	mu := farsync.NewMutex(newStore(t, file, nil), "/guard")
	lease, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, user.guarded(lease, 1))
	require.NoError(t, user.guarded(lease, 2), "as often as one likes")
	for name, h := range map[string]held{
		"nothing":          nil,
		"another's row":    {{Queue: "/guard", ID: "another", Revision: locktest.GuardEntries(t, lease)[0].Revision}},
		"another revision": {{Queue: "/guard", ID: lease.ID(), Revision: locktest.GuardEntries(t, lease)[0].Revision + 1}},
		"one of two":       {locktest.GuardEntries(t, lease)[0], {Queue: "/guard", ID: "another", Revision: 2}},
	} {
		require.ErrorIs(t, user.guarded(h, 3), farsync.ErrLost, name)
	}
	before := held(locktest.GuardEntries(t, lease))
	require.NoError(t, lease.Release())
	require.EqualError(t, user.guarded(lease, 4), "farsync: guard /guard: released")
	require.ErrorIs(t, user.guarded(lease, 4), farsync.ErrReleased)
	next, err := mu.Lock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, user.guarded(before, 5), farsync.ErrLost, "the lease of before, while the same Mutex is held again")
	require.Equal(t, 2, user.balance(t))
	require.NoError(t, user.guarded(next, 6))
	require.NoError(t, next.Release())
	require.Equal(t, 6, user.balance(t))
}

// TestGuardEndsWithItsTurn has goroutines that share a Mutex wait for each other, so that the lock is handed off where it may.
func TestGuardEndsWithItsTurn(t *testing.T) {
	file := newFile(t)
	user := newAccount(t, file)
	mu := farsync.NewMutex(newStore(t, file, nil), "/guard")
	for range 10 {
		first, err := mu.Lock(within(t, soon))
		require.NoError(t, err)
		guard := held(locktest.GuardEntries(t, first))
		require.NoError(t, user.guarded(guard, 1))
		next := make(chan *farsync.Lease, 1)
		go func() {
			lease, _ := mu.Lock(t.Context())
			next <- lease
		}()
		require.NoError(t, pause.For(t.Context(), time.Millisecond))
		require.NoError(t, first.Release())
		second := <-next
		require.NotNil(t, second)
		require.ErrorIs(t, user.guarded(guard, 2), farsync.ErrLost)
		require.NoError(t, user.guarded(second, 3))
		require.NoError(t, second.Release())
	}
}

// TestGuardRefusesALostLease, whose holder does not know yet.
func TestGuardRefusesALostLease(t *testing.T) {
	file := newFile(t)
	user := newAccount(t, file)
	store := newStore(t, file, ttl(time.Hour)) // no renewal comes between
	lease, err := farsync.NewMutex(store, "/guard").Lock(t.Context())
	require.NoError(t, err)
	user.exec(t, "UPDATE farsync_sessions SET deadline = ?", machine.Clock())
	require.NoError(t, lease.Err(), "it has not heard yet")
	require.ErrorIs(t, user.guarded(lease, 1), farsync.ErrLost, "past its deadline")
	user.exec(t, "DELETE FROM farsync_sessions")
	require.ErrorIs(t, user.guarded(lease, 1), farsync.ErrLost, "without a session")
	require.Zero(t, user.balance(t))
}

// TestGuardHoldsTheLock: between Guard and the commit the lock is nobody else's, or the transaction fails.
func TestGuardHoldsTheLock(t *testing.T) {
	file := newFile(t)
	user := newAccount(t, file)
	by := newSessionIn(t, file, nil)
	for _, first := range []string{"guard", "write"} {
		t.Run(first+" first", func(t *testing.T) {
			lease, err := farsync.NewMutex(newStore(t, file, nil), "/guard").Lock(t.Context())
			require.NoError(t, err)
			own, err := user.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = own.Rollback() }()
			steps := []func() error{
				func() error { return Guard(t.Context(), own, lease) },
				func() error { _, err := own.Exec("UPDATE accounts SET balance = 7"); return err },
			}
			if first == "write" {
				steps[0], steps[1] = steps[1], steps[0]
			}
			require.NoError(t, steps[0]())
			ended := make(chan error, 1)
			go func() {
				ended <- by.endOwner(within(t, soon), lease.ID())
			}()
			if first == "guard" {
				require.NoError(t, <-ended, "nothing is written yet")
				var busy *sqlite.Error
				require.ErrorAs(t, steps[1](), &busy)
				require.Equal(t, 5, busy.Code()&0xff)
				require.NoError(t, own.Rollback())
				require.Zero(t, user.balance(t))
				return
			}
			select {
			case err := <-ended:
				require.NoError(t, err)
				require.Fail(t, "the session has ended within the transaction")
			case <-time.After(100 * time.Millisecond):
			}
			require.NoError(t, steps[1]())
			require.NoError(t, own.Commit())
			require.NoError(t, <-ended)
			require.Equal(t, 7, user.balance(t))
			require.ErrorIs(t, user.guarded(lease, 8), farsync.ErrLost)
		})
	}
}
