package adapt_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/adapt"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// bubble runs f in a bubble with a service and two of its clients.
func bubble(t *testing.T, f func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store)) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		one, two := service.Open(nil), service.Open(nil)
		defer one.Close() // for when f fails: a bubble waits for all of its goroutines
		defer two.Close()
		f(t, service, one, two)
		require.NoError(t, one.Close())
		require.NoError(t, two.Close())
		entries, sessions, watches := service.Left()
		require.Zero(t, entries+sessions+watches, "left at the service")
	})
}

// lock is gocron.Lock.
type lock interface{ Unlock(context.Context) error }

func TestCertMagicExcludes(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		ctx := t.Context()
		first, second := adapt.NewCertMagic(one, "/certs"), adapt.NewCertMagic(two, "/certs")
		const name = "issue_cert_*.example.com"
		require.NoError(t, first.Lock(ctx, name))
		got, err := second.TryLock(ctx, name)
		require.NoError(t, err)
		require.False(t, got)
		got, err = first.TryLock(ctx, name)
		require.NoError(t, err)
		require.False(t, got, "also within a process")
		require.NoError(t, second.Lock(ctx, "another"))
		waiting := make(chan error)
		go func() { waiting <- second.Lock(ctx, name) }()
		synctest.Wait()
		require.NoError(t, first.Unlock(ctx, name))
		require.NoError(t, <-waiting)
		require.ErrorIs(t, first.Unlock(ctx, name), farsync.ErrReleased)
		given, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, first.Lock(given, name), context.DeadlineExceeded)
		require.NoError(t, second.Unlock(ctx, name))
		synctest.Wait()
		got, err = first.TryLock(ctx, name)
		require.NoError(t, err)
		require.True(t, got)
		service.Expire(one)
		service.Partition(one, true)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: the deadline passes
		service.Partition(one, false)
		require.ErrorIs(t, first.Unlock(ctx, name), farsync.ErrLost)
		require.NoError(t, second.Unlock(ctx, "another"))
	})
}

// One that has lost the lock unlocks while another goroutine of its process holds it.
func TestCertMagicUnlocksNoLeaseOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		ctx := t.Context()
		here, there := adapt.NewCertMagic(one, "/certs"), adapt.NewCertMagic(two, "/certs")
		require.NoError(t, here.Lock(ctx, "x"))
		service.Partition(one, true)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: the deadline passes
		service.Partition(one, false)
		require.NoError(t, here.Lock(ctx, "x"))
		require.ErrorIs(t, here.Unlock(ctx, "x"), farsync.ErrLost)
		got, err := there.TryLock(ctx, "x")
		require.NoError(t, err)
		require.False(t, got)
		require.NoError(t, here.Unlock(ctx, "x"))
		require.ErrorIs(t, here.Unlock(ctx, "x"), farsync.ErrReleased)
		got, err = there.TryLock(ctx, "x")
		require.NoError(t, err)
		require.True(t, got)
		require.NoError(t, there.Unlock(ctx, "x"))
	})
}

func TestGocronLockerKeepsALockForTheMinimum(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		ctx := t.Context()
		const job, minimum = "github.com/acme/billing.run", 10 * time.Second
		first := adapt.NewGocronLocker[lock](one, "/cron", minimum)
		second := adapt.NewGocronLocker[lock](two, "/cron", minimum)
		begun := time.Now()
		held, err := first.Lock(ctx, job)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(ctx), "the job was quick")
		require.Zero(t, time.Since(begun), "Unlock does not wait")
		for time.Since(begun) < minimum-time.Second {
			_, err = second.Lock(ctx, job)
			require.ErrorIs(t, err, farsync.ErrLocked, "the other replica's clock is late")
			time.Sleep(time.Second) //nolint:forbidigo // in a bubble
		}
		other, err := second.Lock(ctx, "another")
		require.NoError(t, err)
		time.Sleep(2 * time.Second) //nolint:forbidigo // in a bubble: the next run
		synctest.Wait()
		held, err = second.Lock(ctx, job)
		require.NoError(t, err)
		time.Sleep(2 * minimum) //nolint:forbidigo // in a bubble: a long job
		_, err = first.Lock(ctx, job)
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, other.Unlock(ctx))
		synctest.Wait()
		held, err = first.Lock(ctx, job)
		require.NoError(t, err, "its time was over when the job was")
		require.NoError(t, held.Unlock(ctx))
		first.Close()
		_, err = first.Lock(ctx, job)
		require.ErrorIs(t, err, farsync.ErrClosed)
		_, err = second.Lock(ctx, job)
		require.ErrorIs(t, err, farsync.ErrLocked, "the locker is closed, and the time is not over")
		time.Sleep(minimum + time.Second) //nolint:forbidigo // in a bubble
		require.Empty(t, service.Entries("/cron/github.com_2facme_2fbilling.run"))
	})
}

func TestGocronLockerUnlocksAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		g := adapt.NewGocronLocker[lock](one, "/cron", time.Hour)
		held, err := g.Lock(t.Context(), "job")
		require.NoError(t, err)
		g.Close()
		require.NoError(t, held.Unlock(t.Context()))
		require.Len(t, service.Entries("/cron/job"), 1, "its time is not over")
		require.NoError(t, one.Close())
		require.Empty(t, service.Entries("/cron/job"))
	})
}

func TestGocronLockerTellsOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
		g := adapt.NewGocronLocker[lock](one, "/cron", time.Second)
		held, err := g.Lock(t.Context(), "job")
		require.NoError(t, err)
		service.Partition(one, true)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: the deadline passes
		service.Partition(one, false)
		require.ErrorIs(t, held.Unlock(t.Context()), farsync.ErrLost)
		g.Close()
	})
}

func TestGocronElectorIsOne(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		run := func(g *adapt.GocronElector) (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- g.Run(ctx) }()
			synctest.Wait()
			return func() {
				cancel()
				require.NoError(t, <-ended)
			}
		}
		first := adapt.NewGocronElector(farsync.NewElection(one, "/leader"), "first")
		second := adapt.NewGocronElector(farsync.NewElection(two, "/leader"), "second")
		require.ErrorIs(t, first.IsLeader(t.Context()), adapt.ErrNotLeader, "it does not run")
		stopFirst, stopSecond := run(first), run(second)
		require.NoError(t, first.IsLeader(t.Context()))
		require.ErrorIs(t, second.IsLeader(t.Context()), adapt.ErrNotLeader)
		require.Nil(t, second.Lease())

		service.Partition(one, true)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: the deadline passes, and the session
		require.ErrorIs(t, first.IsLeader(t.Context()), adapt.ErrNotLeader)
		require.NoError(t, second.IsLeader(t.Context()))
		lease := second.Lease()
		service.Partition(one, false)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble: first stands again
		stopSecond()
		require.ErrorIs(t, second.IsLeader(t.Context()), adapt.ErrNotLeader)
		require.ErrorIs(t, lease.Err(), farsync.ErrReleased)
		synctest.Wait()
		require.NoError(t, first.IsLeader(t.Context()))
		require.Greater(t, first.Lease().Token(), lease.Token())
		stopFirst()
	})
}

func TestGocronElectorEndsWithItsStore(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		require.ErrorIs(t, adapt.NewGocronElector(farsync.NewElection(one, "no/slash"), "").Run(t.Context()), farsync.ErrPath)
		ended := make(chan error, 1)
		go func() { ended <- adapt.NewGocronElector(farsync.NewElection(one, "/leader"), "").Run(t.Context()) }()
		synctest.Wait()
		require.NoError(t, one.Close())
		require.ErrorIs(t, <-ended, farsync.ErrClosed)
	})
}

func TestMisusePanics(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		require.Panics(t, func() { adapt.NewCertMagic(nil, "/certs") })
		require.Panics(t, func() { adapt.NewGocronLocker[lock](nil, "/cron", time.Second) })
		require.PanicsWithValue(t,
			"farsync: NewGocronLocker: no time to keep a lock for: a short job would run on every replica",
			func() { adapt.NewGocronLocker[lock](one, "/cron", 0) })
		require.Panics(t, func() { adapt.NewGocronLocker[error](one, "/cron", time.Second) })
	})
}

// TestBadPathIsAnError: a path may be a setting that is missing.
func TestBadPathIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		for _, path := range []string{"", "certs", "/certs/"} {
			require.ErrorIs(t, adapt.NewCertMagic(one, path).Lock(t.Context(), "x"), farsync.ErrPath)
			_, err := adapt.NewGocronLocker[lock](one, path, time.Second).Lock(t.Context(), "x")
			require.ErrorIs(t, err, farsync.ErrPath)
		}
	})
}

// TestNamesOfOthersAreKeptApart: whatever a library calls its locks, each has a path of its own, and a valid one.
func TestNamesOfOthersAreKeptApart(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		c := adapt.NewCertMagic(one, "/certs")
		names := []string{
			"", ".", "..", "...", "_", "_.", "_2e", "a/b", "a_2fb", "a\x00b", "*.example.com", "_c_x", "ü", "a b", "zookeeper",
			strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("y", 1000), strings.Repeat("/", 43), strings.Repeat(".", 128),
		}
		for _, name := range names {
			got, err := c.TryLock(t.Context(), name)
			require.NoError(t, err, name)
			require.True(t, got, "%q shares its path with another", name)
		}
		for _, name := range names {
			require.NoError(t, c.Unlock(t.Context(), name))
		}
	})
}
