//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

const (
	maxReaders = 255
	shareFor   = 50 * time.Millisecond
)

// A pending is a call that acquires and is under way.
type pending struct {
	done   chan struct{}
	cancel context.CancelFunc
	lease  *farsync.Lease
	err    error
}

// begin begins a call, and returns once it has got as far as it gets.
func begin(lock func(context.Context) (*farsync.Lease, error)) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(p.done)
		p.lease, p.err = lock(ctx)
	}()
	synctest.Wait()
	return p
}

func (p *pending) waiting() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// got is the lease of a call that must have returned by now.
func (p *pending) got(t *testing.T) *farsync.Lease {
	t.Helper()
	require.False(t, p.waiting(), "it waits")
	require.NoError(t, p.err)
	return p.lease
}

func must(t *testing.T) func(lease *farsync.Lease, err error) *farsync.Lease {
	return func(lease *farsync.Lease, err error) *farsync.Lease {
		t.Helper()
		require.NoError(t, err)
		return lease
	}
}

func TestReadersOfAProcessShareAnEntryWithinBounds(t *testing.T) {
	for _, try := range []bool{false, true} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			rw := farsync.NewRWMutex(one, "/a")
			lock := rw.RLock
			if try {
				lock = rw.TryRLock
			}
			leases := []*farsync.Lease{must(t)(lock(t.Context()))}
			service.ResetCount()
			tokens := map[farsync.Token]bool{leases[0].Token(): true}
			for range maxReaders {
				lease := must(t)(lock(t.Context()))
				require.False(t, tokens[lease.Token()], "each has its token")
				tokens[lease.Token()] = true
				require.Equal(t, leases[0].Token().Revision(), lease.Token().Revision())
				leases = append(leases, lease)
			}
			require.Zero(t, service.Count(), "to share costs nothing")
			require.Len(t, service.Entries("/a"), 1)
			leases = append(leases, must(t)(lock(t.Context())))
			require.Len(t, service.Entries("/a"), 2, "one more has a place of its own")
			writer := begin(farsync.NewRWMutex(two, "/a").Lock)
			leases = append(leases, must(t)(rw.RLock(t.Context())))
			require.Len(t, service.Entries("/a"), 3, "past a writer that came in between, too")
			time.Sleep(shareFor)
			late := begin(rw.RLock)
			require.True(t, late.waiting(), "but not later than this")
			require.Len(t, service.Entries("/a"), 4)
			_, err := rw.TryRLock(t.Context())
			require.ErrorIs(t, err, farsync.ErrLocked)
			for _, lease := range leases {
				require.True(t, writer.waiting())
				require.NoError(t, lease.Release())
			}
			w := writer.got(t)
			require.True(t, late.waiting())
			require.NoError(t, w.Release())
			require.NoError(t, late.got(t).Release())
		})
	}
}

// A reader that reads once more fails at once where it would wait for a writer who waits for it.
func TestReaderDoesNotWaitForWhoWaitsForIt(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		rw := farsync.NewRWMutex(one, "/a")
		first := must(t)(rw.RLock(t.Context()))
		ctx, cancel := first.Context(t.Context())
		defer cancel()
		time.Sleep(shareFor)
		second := must(t)(rw.RLock(ctx))
		time.Sleep(shareFor)
		writer := begin(farsync.NewRWMutex(two, "/a").Lock)
		require.True(t, writer.waiting())
		began := time.Now()
		_, err := rw.RLock(ctx)
		require.NotErrorIs(t, err, farsync.ErrLocked)
		require.ErrorIs(t, err, farsync.ErrDeadlock)
		require.EqualError(t, err, "farsync: read lock /a: it would wait for itself: a writer waits for the lease that the context stands for")
		require.Zero(t, time.Since(began))
		other := begin(rw.RLock)
		require.True(t, other.waiting(), "who does not read yet waits for its turn")
		require.NoError(t, first.Release())
		_, err = rw.RLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, second.Release())
		require.NoError(t, writer.got(t).Release())
		require.NoError(t, other.got(t).Release())
	})
}

// The line of a process that waits for its reader in the queue comes in with it.
func TestReadersInTheLineComeInTogether(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		writer := must(t)(farsync.NewRWMutex(two, "/a").Lock(t.Context()))
		rw := farsync.NewRWMutex(one, "/a")
		readers := []*pending{begin(rw.RLock), begin(rw.RLock), begin(rw.RLock), begin(rw.RLock)}
		require.Len(t, service.Entries("/a"), 2)
		readers[2].cancel()
		require.False(t, readers[2].waiting())
		require.NoError(t, writer.Release())
		for _, i := range []int{0, 1, 3} {
			readers[i].got(t)
		}
		require.Len(t, service.Entries("/a"), 1)
		for _, i := range []int{3, 0, 1} {
			require.Len(t, service.Entries("/a"), 1, "until the last of them has gone")
			require.NoError(t, readers[i].lease.Release())
		}
		require.Empty(t, service.Entries("/a"))
	})
}

// The first of the waiters gives up: one of them has to be in the queue all the same.
func TestReadersInTheLineOutliveTheirFirst(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		writer := must(t)(farsync.NewRWMutex(two, "/a").Lock(t.Context()))
		rw := farsync.NewRWMutex(one, "/a")
		readers := []*pending{begin(rw.RLock), begin(rw.RLock), begin(rw.RLock)}
		readers[0].cancel()
		require.False(t, readers[0].waiting())
		require.Len(t, service.Entries("/a"), 2)
		require.NoError(t, writer.Release())
		require.NoError(t, readers[1].got(t).Release())
		require.NoError(t, readers[2].got(t).Release())
	})
}

func TestReadersOfALostSessionJoinAnew(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		rw := farsync.NewRWMutex(one, "/a")
		first, second := must(t)(rw.RLock(t.Context())), must(t)(rw.RLock(t.Context()))
		service.Expire(one)
		// Another call tells the client.
		require.NoError(t, must(t)(farsync.NewRWMutex(one, "/b").RLock(t.Context())).Release())
		require.ErrorIs(t, second.Err(), farsync.ErrLost)
		third := must(t)(rw.RLock(t.Context()))
		require.Greater(t, third.Token().Revision(), first.Token().Revision())
		require.ErrorIs(t, first.Release(), farsync.ErrLost)
		require.ErrorIs(t, second.Release(), farsync.ErrLost)
		fourth := must(t)(rw.RLock(t.Context()))
		require.Equal(t, third.Token().Revision(), fourth.Token().Revision(), "what the lost one leaves is not this one's")
		require.NoError(t, third.Release())
		writer := begin(farsync.NewRWMutex(two, "/a").Lock)
		require.True(t, writer.waiting())
		require.NoError(t, fourth.Release())
		require.NoError(t, writer.got(t).Release())
	})
}

// The turn after a downgrade would be a writer's on a place that reads.
func TestDowngradeHandsNoTurnOn(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		rw := farsync.NewRWMutex(one, "/a")
		writer := must(t)(rw.Lock(t.Context()))
		line := begin(rw.Lock)
		require.Len(t, service.Entries("/a"), 1, "it waits for a turn")
		behind := begin(farsync.NewRWMutex(two, "/a").RLock)
		require.NoError(t, rw.Downgrade(t.Context(), writer))
		reader := behind.got(t) // the line stands in the queue now, so a reader that came later would wait for it
		require.NoError(t, writer.Release())
		require.True(t, line.waiting())
		time.Sleep(shareFor)
		require.True(t, line.waiting())
		require.NoError(t, reader.Release())
		next := line.got(t)
		require.Greater(t, next.Token(), writer.Token())
		require.NoError(t, next.Release())
	})
}

// Nothing answers: readers may be in or not.
func TestDowngradeOfUnknownOutcomeIsALoss(t *testing.T) {
	for _, cut := range []bool{false, true} { // when the ctx ends, or when the lease does
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			rw := farsync.NewRWMutex(one, "/a")
			writer := must(t)(rw.Lock(t.Context()))
			under, cancel := writer.Context(t.Context())
			defer cancel()
			service.Partition(one, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if cut {
				ctx = t.Context()
			}
			err := rw.Downgrade(ctx, writer)
			require.ErrorIs(t, err, farsync.ErrLost)
			if !cut {
				require.ErrorIs(t, err, farsync.ErrUncertain)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			<-under.Done()
			require.ErrorIs(t, context.Cause(under), farsync.ErrLost)
			service.Partition(one, false)
			require.ErrorIs(t, writer.Release(), farsync.ErrLost)
			next := begin(farsync.NewRWMutex(two, "/a").Lock)
			time.Sleep(time.Minute)
			require.NoError(t, next.got(t).Release())
			require.NoError(t, must(t)(rw.Lock(t.Context())).Release())
		})
	}
}

// The replies are lost, but there are more where they came from.
func TestDowngradeSurvivesLostReplies(t *testing.T) {
	for _, fault := range []farsynctest.Fault{farsynctest.LoseRequest, farsynctest.LoseReply} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
			rw := farsync.NewRWMutex(one, "/a")
			writer := must(t)(rw.Lock(t.Context()))
			lost := false
			service.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind != farsynctest.Replace || lost {
					return farsynctest.None
				}
				lost = true
				return fault
			})
			require.NoError(t, rw.Downgrade(t.Context(), writer))
			require.True(t, lost)
			require.NoError(t, must(t)(farsync.NewRWMutex(two, "/a").TryRLock(t.Context())).Release())
			require.NoError(t, writer.Release())
		})
	}
}

// A Trace is told by the call that has found the loss.
func TestTraceMayReleaseWhatDowngradeHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := farsynctest.NewMem()
		var lease *farsync.Lease
		var released error
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Trace: &farsync.Trace{Ended: func(farsync.TraceEnd) {
			released = lease.Release()
		}}}})
		defer func() { require.NoError(t, store.Close()) }()
		rw := farsync.NewRWMutex(store, "/rw")
		var err error
		lease, err = rw.Lock(t.Context())
		require.NoError(t, err)
		require.True(t, service.Delete(service.Entries("/rw")[0].ID))
		down := make(chan error, 1)
		go func() { down <- rw.Downgrade(t.Context(), lease) }()
		synctest.Wait()
		require.Len(t, down, 1, "it has returned")
		require.ErrorIs(t, <-down, farsync.ErrLost)
		require.ErrorIs(t, released, farsync.ErrLost)
	})
}
