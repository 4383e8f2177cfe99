package postgrestest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/postgres"
)

// TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed: there are more of them than connections.
func TestThoseThatWaitForRowsKeepNoSessionFromBeingRenewed(t *testing.T) {
	suite.Long(t, suite.Postgres, "waits for renewals of a TTL of 4 s, which must be in time")
	t.Parallel()
	d := newServer(t)
	const ttl = 4 * time.Second
	store := d.open(t, ttl)
	lease, err := farsync.NewMutex(store, "/held").Lock(within(t, soon))
	require.NoError(t, err)
	tx, err := d.admin.Begin(within(t, soon))
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	var all errgroup.Group
	ctx, cancel := context.WithCancel(within(t, soon))
	defer cancel()
	for n := range 16 {
		path := fmt.Sprintf("/row/%d", n)
		require.NoError(t, postgres.LockTx(within(t, soon), tx, path))
		all.Go(func() error {
			_, err := farsync.NewMutex(store, path).Lock(ctx)
			return err
		})
	}
	later := time.Now().Add(3 * ttl)
	require.Eventually(t, func() bool { return lease.Err() != nil || lease.Deadline().After(later) }, soon, time.Millisecond)
	require.NoError(t, lease.Err())
	cancel()
	require.ErrorIs(t, all.Wait(), context.Canceled)
	require.NoError(t, lease.Release())
}

// TestEntriesOfSessionsThatAreNotThereShowNone: whoever looks is to see that no session will end them. The entries of a session that was
// ended, and had too many for one step, are being removed.
func TestEntriesOfSessionsThatAreNotThereShowNone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	store := d.open(t, time.Minute)
	sessions := map[string]any{"/lives": "lives", "/none": nil, "/gone": "gone", "/ended": "ended"}
	for queue, session := range sessions {
		d.foreign(t, queue, session)
	}
	d.exec(t, "ALTER TABLE farsync_sessions DISABLE TRIGGER USER")
	d.exec(t, "DELETE FROM farsync_sessions WHERE id IN ('gone', 'ended')")
	d.exec(t, "ALTER TABLE farsync_sessions ENABLE TRIGGER USER")
	want := map[string]string{"/lives": "lives", "/none": "", "/gone": "", "/ended": "ended"}
	tx, err := d.admin.Begin(within(t, soon))
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(within(t, soon), "SELECT 1 FROM farsync_entries WHERE queue = '/ended' FOR UPDATE") // so that nobody removes it just now
	require.NoError(t, err)
	d.exec(t, "INSERT INTO farsync_ended VALUES ('ended')")
	for queue, session := range want {
		list, err := store.Participants(within(t, soon), queue)
		require.NoError(t, err)
		require.Len(t, list, 1, queue)
		require.Equal(t, session, list[0].Session, queue)
	}
	for lock, err := range store.Survey(within(t, soon), "") {
		require.NoError(t, err)
		require.Equal(t, want[lock.Path], lock.Participants[0].Session, lock.Path)
		delete(want, lock.Path)
	}
	require.Empty(t, want)
}

// TestHolderWhoseEntryIsChangedByHandIsTold: the waiter is let in, and the holder is told when it looks at its entry,
// 48 s later at most.
func TestHolderWhoseEntryIsChangedByHandIsTold(t *testing.T) {
	suite.Long(t, suite.Postgres, "two hold until the first looks at its entry, 48 s later at most")
	t.Parallel()
	d := newDatabase(t)
	first, second := d.open(t, time.Minute), d.open(t, time.Minute)
	for path, change := range map[string]string{"/queue": "queue = '/else'", "/kind": "kind = 'read'"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			a, b := farsync.NewRWMutex(first, path), farsync.NewRWMutex(second, path)
			lease, err := a.Lock(within(t, soon))
			require.NoError(t, err)
			next := locktest.Behind(t, b.RLock)
			locktest.AwaitQueue(t, second, path, 2)
			d.exec(t, "UPDATE farsync_entries SET "+change+" WHERE id = $1", lease.ID())
			d.exec(t, "SELECT pg_notify('farsync_' || session, id) FROM farsync_entries WHERE queue = $1", path)
			let := locktest.Got(t, next)
			<-lease.Done()
			require.ErrorContains(t, lease.Err(), "its entry was changed by another client")
			require.NoError(t, let.Err())
			require.ErrorIs(t, lease.Release(), farsync.ErrLost)
			require.NoError(t, let.Release())
		})
	}
}
