//go:build unix

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deaf"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/suite"
)

// TestForeignWriterIsWaitedFor: another program may keep the file locked for a while.
func TestForeignWriterIsWaitedFor(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	store := newStore(t, file, nil)
	mu := farsync.NewMutex(store, path)
	in := newSessionIn(t, file, nil)
	conn, err := newOperator(t, file).db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		lease, err := mu.Lock(within(t, soon))
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()

	ctx := within(t, 200*time.Millisecond)
	err = in.Renew(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	if !errors.Is(err, deaf.ErrStuck) { // on a machine that is busy with other things the end of ctx may be noticed late
		require.Equal(t, driver.NotDone, outcome(err))
		require.ErrorContains(t, err, "another transaction on the file is under way, or another program keeps a lock on its -shm: database is locked")
	}
	_, err = Open(within(t, 300*time.Millisecond), file, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, file)
	_, err = mu.Lock(within(t, 300*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	list, err := store.Participants(within(t, soon), path)
	require.NoError(t, err, "reads go on")
	require.Empty(t, list)

	require.Empty(t, got)
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, <-got)
}

// TestFullFileIsRefused, by the limit that SQLite has of its own.
func TestFullFileIsRefused(t *testing.T) {
	t.Parallel()
	in := newSessionIn(t, newFile(t), nil)
	_, err := in.file.db.Exec("PRAGMA max_page_count = 1")
	require.NoError(t, err)
	for i := range 100 {
		e := driver.Entry{
			Queue: "/full/" + strconv.Itoa(i), ID: in.NewID("", 0, 1), Kind: driver.Exclusive, Units: 1,
			Value: make([]byte, 10_000),
		}
		if _, err = in.Create(t.Context(), e, 0); err != nil {
			break
		}
	}
	require.ErrorContains(t, err, "the disk is full")
	require.Equal(t, driver.Refused, outcome(err))
	list, err := in.Owned(t.Context(), []string{"/full/0"})
	require.NoError(t, err, "it is usable again")
	require.Empty(t, list)
	_, err = in.file.db.Exec("PRAGMA max_page_count = 1000000")
	require.NoError(t, err)
	require.NoError(t, in.Renew(t.Context(), nil))
}

// TestFrozenFileSystemKeepsNoCaller: a write that the kernel holds up hears of no ctx, but its caller does.
func TestFrozenFileSystemKeepsNoCaller(t *testing.T) {
	t.Parallel()
	in := newSessionIn(t, newFile(t), nil)
	began, thaw := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	err := in.update(ctx, func(context.Context, *sql.Tx) error {
		close(began)
		<-thaw
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, driver.Unknown, outcome(err))
	_, _, err = in.Delete(within(t, 50*time.Millisecond), driver.Entry{ID: "any"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, driver.NotDone, outcome(err), "it waits for its turn")
	close(thaw)
	require.NoError(t, in.Renew(t.Context(), nil))
}

func TestClosedServiceIsClosed(t *testing.T) {
	s, err := NewService(newFile(t), nil)
	require.NoError(t, err)
	in, err := s.Open(t.Context(), 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, in.Close(t.Context()))
	require.NoError(t, s.Close())
	_, err = s.Open(t.Context(), 10*time.Second)
	require.Equal(t, driver.Closed, s.Outcome(err))
}

// TestAnotherBootIsWaitedFor, once: its clock cannot be read any more.
func TestAnotherBootIsWaitedFor(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, ttl(10*time.Second)), path)
	admin := newOperator(t, file)
	began := time.Now() // before anybody can have seen the session
	admin.exec(t, "INSERT INTO farsync_sessions VALUES ('of before', 'another boot', ?, 2000000, 0)", machine.Clock()+int64(time.Hour/time.Microsecond))
	admin.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind) VALUES ('x', ?, 'of before', 'exclusive')", path)
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(began), 2*time.Second)
	require.NoError(t, lease.Release())
}

// TestWithoutSockets: a session that has none looks often, and is not taken for dead.
func TestWithoutSockets(t *testing.T) {
	suite.Long(t, suite.SQLite, "kills a process that has a TTL of 2 s")
	t.Parallel()
	file := newFile(t)
	require.NoError(t, os.WriteFile(file+"-farsync", nil, 0o600)) // where the directory should be
	holder := start(t, "hold", file, ttlVariable+"=2s")
	holder.says("locked")
	store := newStore(t, file, nil)
	mu := farsync.NewMutex(store, path)
	killed := time.Now()
	holder.kill()
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(killed), time.Second, "the TTL")
	other := farsync.NewMutex(newStore(t, file, nil), path)
	for range 10 {
		got := make(chan *farsync.Lease)
		go func() {
			lease, err := other.Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		for list, err := store.Participants(t.Context(), path); len(list) < 2; list, err = store.Participants(t.Context(), path) {
			require.NoError(t, err)
		}
		released := time.Now()
		require.NoError(t, lease.Release())
		lease = <-got
		t.Log("handed over after", time.Since(released))
		mu, other = other, mu
	}
	require.NoError(t, lease.Release())
}

// TestSync: FULL is 2, NORMAL 1.
func TestSync(t *testing.T) {
	for want, options := range map[int]*Options{1: nil, 2: {Sync: true}} {
		in := newSessionIn(t, newFile(t), options)
		var is int
		require.NoError(t, in.file.db.QueryRow("PRAGMA synchronous").Scan(&is))
		require.Equal(t, want, is)
	}
}

// TestEmptyID: see RunEmptyID.
func TestEmptyID(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	store, admin := newStore(t, file, ttl(time.Minute)), newOperator(t, file)
	locktest.RunEmptyID(t, store, "/empty", func(queue, kind string) {
		admin.exec(t, "INSERT INTO farsync_entries (id, queue, kind) VALUES ('', ?, ?)", queue, kind)
	}, func() { admin.exec(t, "DELETE FROM farsync_entries WHERE id = ''") })
}

// TestPermitsOfNoUnits: see RunNoUnits.
func TestPermitsOfNoUnits(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	store, admin := newStore(t, file, ttl(time.Minute)), newOperator(t, file)
	locktest.RunNoUnits(t, store, "/none", func(queue string, units int) {
		e := admin.foreign(t, queue, "other")
		admin.exec(t, "UPDATE farsync_entries SET kind = 'permit', units = ? WHERE id = ?", units, e.ID)
	})
}
