//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

func TestMultiMutexTriesAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		mu := farsync.NewMutex
		multi := farsync.NewMultiMutex(mu(one, "/b"), mu(one, "/a"), mu(one, "/c"), mu(one, "/a"))
		nothing := func(paths ...string) {
			t.Helper()
			synctest.Wait()
			for _, path := range paths {
				require.Empty(t, service.Entries(path), path)
			}
		}

		taken := lock(t, mu(two, "/b"))
		// That the service refuses to remove what was held is no error of the Try. Removal goes on.
		var removals atomic.Int32
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete && removals.Add(1) <= 3 {
				return farsynctest.Refuse(errWork)
			}
			return farsynctest.None
		})
		lease, err := multi.TryLock(t.Context())
		require.Nil(t, lease)
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.NotErrorIs(t, err, errWork)
		require.ErrorContains(t, err, "farsync: try lock /b: locked: held by")
		time.Sleep(time.Minute)
		require.Greater(t, removals.Load(), int32(3))
		nothing("/a", "/c")

		// It waits for the removal, so that the next Try finds none of its own. When ctx ends it does not.
		service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Delete {
				return farsynctest.Delay(500 * time.Millisecond)
			}
			return farsynctest.None
		})
		began := time.Now()
		_, err = multi.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		require.Empty(t, service.Entries("/a"))
		began = time.Now()
		short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err = multi.TryLock(short)
		stop()
		require.ErrorIs(t, err, farsync.ErrLocked)
		require.Equal(t, 200*time.Millisecond, time.Since(began))
		time.Sleep(time.Minute)
		nothing("/a", "/c")
		service.SetFault(nil)

		// Who waits for a member is ahead as well.
		waiter := begin(mu(two, "/c").Lock)
		held := waiter.got(t)
		behind := begin(mu(one, "/c").Lock)
		require.True(t, behind.waiting())
		require.NoError(t, taken.Release())
		_, err = multi.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		nothing("/a", "/b")
		require.NoError(t, held.Release())
		require.NoError(t, behind.got(t).Release())

		service.ResetCount()
		lease, err = multi.TryLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, service.Count(farsynctest.Create), "a member that comes twice is locked once")
		require.Len(t, lease.Tokens(), 4)
		require.Equal(t, lease.Tokens()[1], lease.Tokens()[3])
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		_, err = multi.TryLock(ctx)
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.ErrorContains(t, err, "would wait for itself")
		require.NoError(t, lease.Release())

		service.ResetCount()
		over, end := context.WithCancel(t.Context())
		end()
		_, err = multi.TryLock(over)
		require.ErrorIs(t, err, context.Canceled)
		_, err = farsync.NewMultiMutex(mu(one, "/a"), mu(one, "c")).TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrPath)
		require.Zero(t, service.Count())
	})
}

// A member that is lost while the others are tried leaves nothing held.
func TestMultiMutexLosesAMemberWhileItTries(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
		east, west := farsynctest.NewMem(), farsynctest.NewMem()
		open := func(service *farsynctest.Mem, name string) *farsync.Store {
			return service.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
		}
		here, there := open(east, "east"), open(west, "west")
		multi := farsync.NewMultiMutex(farsync.NewMutex(here, "/a"), farsync.NewMutex(there, "/b"))
		west.Partition(there, true)
		tried := begin(func(ctx context.Context) (*farsync.Lease, error) {
			_, err := multi.TryLock(ctx)
			return nil, err
		})
		require.True(t, tried.waiting())
		east.Expire(here)
		_, _ = farsync.NewMutex(here, "/other").TryLock(t.Context()) // tells the client
		require.False(t, tried.waiting())
		require.ErrorIs(t, tried.err, farsync.ErrLost)
		west.Partition(there, false)
		time.Sleep(time.Minute)
		require.Empty(t, west.Entries("/b"))
		require.Empty(t, east.Entries("/a"))
		require.NoError(t, here.Close())
		require.NoError(t, there.Close())
	})
}

func TestSemaphoreTellsTheSizeThatCounts(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		size := func(want int64, s *farsync.Semaphore) {
			t.Helper()
			got, err := s.Size(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		three, five := farsync.NewSemaphore(one, "/a", 3), farsync.NewSemaphore(two, "/a", 5)
		size(3, three)
		size(5, five)
		lease := must(t)(three.Acquire(t.Context(), 2))
		size(3, five)
		require.NoError(t, three.Resize(t.Context(), 7))
		size(7, three)
		size(7, five)
		require.NoError(t, lease.Release())
		size(7, five)
		require.NoError(t, must(t)(five.Acquire(t.Context(), 1)).Release()) // declares it anew
		size(5, three)

		none := func(want string, s *farsync.Semaphore) {
			t.Helper()
			got, err := s.Size(t.Context())
			require.Zero(t, got)
			require.ErrorContains(t, err, want)
		}
		none("farsync: size /b: the semaphore was made with 0 units: 1 is the least", farsync.NewSemaphore(one, "/b", 0))
		none("bad path", farsync.NewSemaphore(one, "b", 1))
		service.Partition(one, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := three.Size(ctx)
		require.ErrorIs(t, err, farsync.ErrUnavailable)
		service.Partition(one, false)
		time.Sleep(time.Minute)
		size(5, three)
	})
}

// The ID of a lease is that of its participant, also after a hand-over, when the token of the participant is that of
// the turn before.
func TestIDOfALeaseIsThatOfItsParticipant(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		mu := farsync.NewMutex(one, "/a")
		first := lock(t, mu)
		behind := begin(mu.Lock)
		require.NoError(t, first.Release())
		second := behind.got(t)
		list := must2(two.Participants(t.Context(), "/a"))(t)
		require.Len(t, list, 1)
		require.NotEqual(t, second.Token(), list[0].Token)
		require.Equal(t, second.ID(), list[0].ID)
		require.Equal(t, first.ID(), second.ID(), "it is one entry")
		require.NoError(t, second.Release())
		require.Equal(t, list[0].ID, second.ID(), "it stays")

		rw := farsync.NewRWMutex(one, "/b")
		writer := must(t)(rw.Lock(t.Context()))
		require.NoError(t, rw.Downgrade(t.Context(), writer))
		list = must2(one.Participants(t.Context(), "/b"))(t)
		require.Equal(t, writer.ID(), list[0].ID)
		require.NoError(t, writer.Release())
	})
}

func TestMultiLeaseIsAskedForAnyMember(t *testing.T) {
	for asked := range 3 {
		bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
			var members []*farsync.Mutex
			for _, path := range []string{"/a", "/b", "/c"} {
				members = append(members, farsync.NewMutex(one, path))
			}
			lease, err := farsync.NewMultiMutex(members...).Lock(t.Context())
			require.NoError(t, err)
			channel := lease.Asked()
			require.Equal(t, channel, lease.Asked())
			is := func() bool {
				synctest.Wait()
				select {
				case <-channel:
					return true
				default:
					return false
				}
			}
			require.False(t, is())
			require.NoError(t, two.Ask(t.Context(), []string{"/a", "/b", "/c"}[asked]))
			time.Sleep(time.Minute)
			require.True(t, is())
			require.NoError(t, lease.Err(), "it is only a request")
			require.NoError(t, two.Ask(t.Context(), "/b"), "twice, or another member")
			time.Sleep(time.Minute)
			require.NoError(t, lease.Release())
			require.True(t, is())

			// A lease that has ended listens to nothing, and its channel stays open.
			lease, err = farsync.NewMultiMutex(members...).Lock(t.Context())
			require.NoError(t, err)
			channel = lease.Asked()
			require.NoError(t, lease.Release())
			require.False(t, is())
			lease, err = farsync.NewMultiMutex(members...).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			channel = lease.Asked()
			require.False(t, is())
		})
	}
}

// A QuorumMutex regains members, and listens to those, too.
func TestQuorumLeaseIsAskedForAMemberThatWasRegained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var services []*farsynctest.Mem
		var stores, others []*farsync.Store
		var members []*farsync.Mutex
		for _, name := range []string{"a", "b", "c"} {
			service := farsynctest.NewMem()
			store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
			defer store.Close()
			other := service.Open(nil)
			defer other.Close()
			services, stores, others = append(services, service), append(stores, store), append(others, other)
			members = append(members, farsync.NewMutex(store, "/lock"))
		}
		lease, err := farsync.NewQuorumMutex(members...).Lock(t.Context())
		require.NoError(t, err)
		channel := lease.Asked()
		time.Sleep(time.Minute) // the third is taken
		services[0].Expire(stores[0])
		time.Sleep(time.Minute)
		require.Len(t, services[0].Entries("/lock"), 1, "the first is regained")
		select {
		case <-channel:
			require.Fail(t, "nobody has asked")
		default:
		}
		require.NoError(t, others[0].Ask(t.Context(), "/lock"))
		<-channel
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release())
	})
}

// TestOnlyAGuardEndsTheHandOver: who asks a lease for its ID leaves the lock to the goroutines that wait in this process, under
// the same entry. A Guard has the lock go by the service.
func TestOnlyAGuardEndsTheHandOver(t *testing.T) {
	for name, row := range map[string]struct {
		ask  func(t *testing.T, lease *farsync.Lease)
		same bool
	}{
		"ID":           {func(_ *testing.T, lease *farsync.Lease) { _ = lease.ID() }, true},
		"GuardEntries": {func(t *testing.T, lease *farsync.Lease) { locktest.GuardEntries(t, lease) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, _ *farsync.Store) {
				mu := farsync.NewMutex(one, "/a")
				first := lock(t, mu)
				got := make(chan *farsync.Lease)
				go func() { // ends when first is released
					lease, err := mu.Lock(context.Background())
					assert.NoError(t, err)
					got <- lease
				}()
				synctest.Wait()
				row.ask(t, first)
				require.NoError(t, first.Release())
				second := <-got
				require.Equal(t, row.same, first.ID() == second.ID())
				require.Greater(t, second.Token(), first.Token())
				require.NoError(t, second.Release())
			})
		})
	}
}
