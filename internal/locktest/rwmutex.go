package locktest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

func (s *scene) rw(store *farsync.Store) *farsync.RWMutex { return farsync.NewRWMutex(store, s.path) }

var rwRows = []row{
	{"RWReadersShare", "readers that exclude one another are slow, a writer that does not is wrong", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		first, second := s.take(s.rw(one).RLock), s.take(s.rw(two).RLock)
		writer := s.locking(s.rw(three).Lock)
		s.until(one, 3)
		writer.waits()
		s.release(first)
		writer.waits()
		s.release(second)
		lease := writer.got()
		reader := s.locking(s.rw(one).RLock)
		another := s.locking(s.rw(two).Lock)
		s.until(three, 3)
		reader.waits()
		another.waits()
		s.release(lease)
		s.drain(reader, another)
		s.until(one, 0)
	}},
	{"RWServesInOrder", "the first to come is the first to be served, readers and writers alike", func(s *scene) {
		looker := s.client()
		first := s.take(s.rw(looker).RLock)
		var waiting []*locking
		for i, write := range []bool{true, false, false, true, false} {
			rw := s.rw(s.client())
			lock := rw.RLock
			if write {
				lock = rw.Lock
			}
			waiting = append(waiting, s.locking(lock))
			s.until(looker, i+2)
		}
		list, err := looker.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		kinds := []farsync.Kind{farsync.KindRead, farsync.KindWrite, farsync.KindRead, farsync.KindRead, farsync.KindWrite, farsync.KindRead}
		for i, p := range list {
			require.Equal(s, kinds[i], p.Kind)
			require.Equal(s, i == 0, p.Held)
		}
		waits := func(from int) {
			for _, w := range waiting[from:] {
				w.waits()
			}
		}
		waits(0)
		s.release(first)
		writer := waiting[0].got()
		require.Equal(s, list[1].Token, writer.Token())
		waits(1)
		s.release(writer)
		readers := []*farsync.Lease{waiting[1].got(), waiting[2].got()}
		waits(3)
		list, err = looker.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		require.Equal(s, []bool{true, true, false, false}, []bool{list[0].Held, list[1].Held, list[2].Held, list[3].Held})
		s.release(readers[1])
		waits(3)
		s.release(readers[0])
		writer = waiting[3].got()
		waits(4)
		s.release(writer)
		s.release(waiting[4].got())
	}},
	{"RWStarvesNobody", "a stream of readers must let a writer in, and a stream of writers a reader", func(s *scene) {
		for _, write := range []bool{true, false} {
			ctx := s.ctx()
			stop := make(chan struct{})
			var busy sync.WaitGroup
			section := NewSection(s, 3)
			ofMany, ofOne := int64(3), int64(1)
			if write {
				ofMany, ofOne = ofOne, ofMany
			}
			for range 3 {
				rw := s.rw(s.client())
				many := rw.Lock
				if write {
					many = rw.RLock
				}
				busy.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						lease, err := many(ctx)
						if err != nil {
							s.Error(err)
							return
						}
						section.Visit(ctx, lease, ofMany)
						if err := giveBack(lease); err != nil {
							s.Error(err)
							return
						}
					}
				})
			}
			rw := s.rw(s.client())
			one := rw.RLock
			if write {
				one = rw.Lock
			}
			for range 5 {
				lease := s.take(one)
				section.Visit(ctx, lease, ofOne)
				s.release(lease)
			}
			close(stop)
			busy.Wait()
		}
	}},
	{"RWUpgradeIsRefused", "a reader that waits to write waits for itself", func(s *scene) {
		one := s.client()
		rw := s.rw(one)
		outer := s.take(rw.RLock)
		ctx, cancel := outer.Context(s.ctx())
		defer cancel()
		inner := s.take(func(context.Context) (*farsync.Lease, error) { return rw.RLock(ctx) })
		ctx, cancel = inner.Context(ctx)
		defer cancel()
		ctx = context.WithValue(ctx, contextKey{}, "further down")
		refused := func(ctx context.Context) {
			s.Helper()
			for _, lock := range []func(context.Context) (*farsync.Lease, error){rw.Lock, rw.TryLock, s.rw(one).Lock} {
				_, err := lock(ctx)
				require.ErrorIs(s, err, farsync.ErrUpgrade)
				require.ErrorIs(s, err, farsync.ErrDeadlock)
			}
		}
		refused(ctx)
		other := farsync.NewRWMutex(one, s.path+"-other")
		s.release(s.take(func(context.Context) (*farsync.Lease, error) { return other.Lock(ctx) }))
		s.release(inner)
		s.release(outer)
		s.release(s.take(rw.Lock))

		writer := s.take(rw.Lock)
		ctx, cancel = writer.Context(s.ctx())
		defer cancel()
		require.NoError(s, rw.Downgrade(s.ctx(), writer))
		refused(ctx)
		s.release(writer)
		s.until(one, 0)
	}},
	{"RWUpgradeIsRefusedUnderAnOuterReader", "that the inner of two readers has gone does not make the outer one go", func(s *scene) {
		one := s.client()
		rw := s.rw(one)
		outer := s.take(rw.RLock)
		ctx, cancel := outer.Context(s.ctx())
		defer cancel()
		inner := s.take(func(context.Context) (*farsync.Lease, error) { return rw.RLock(ctx) })
		under, cancel := inner.Context(ctx)
		defer cancel()
		s.release(inner)
		_, err := rw.Lock(context.WithoutCancel(under))
		require.ErrorIs(s, err, farsync.ErrUpgrade)
		s.release(outer)
		s.release(s.take(func(context.Context) (*farsync.Lease, error) { return rw.Lock(context.WithoutCancel(under)) }))
	}},
	{"RWTries", "a call that does not wait leaves nothing behind, and readers do not turn readers away", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		locked := func(try func(context.Context) (*farsync.Lease, error)) {
			s.Helper()
			_, err := try(s.ctx())
			require.ErrorIs(s, err, farsync.ErrLocked)
		}
		reader := s.take(s.rw(one).TryRLock)
		s.release(s.take(s.rw(two).TryRLock))
		locked(s.rw(two).TryLock)
		waiting := s.locking(s.rw(three).Lock)
		s.until(one, 2)
		locked(s.rw(two).TryRLock)
		s.until(one, 2)
		s.release(reader)
		writer := waiting.got()
		locked(s.rw(two).TryRLock)
		locked(s.rw(two).TryLock)
		s.release(writer)
		s.release(s.take(s.rw(two).TryLock))
		s.until(one, 0)
	}},
	{"RWDowngrade", "a queued writer must not get in between, and readers behind must not wait any longer", func(s *scene) {
		one, two, three, four := s.client(), s.client(), s.client(), s.client()
		rw := s.rw(one)
		writer := s.take(rw.Lock)
		token := writer.Token()
		next := s.locking(s.rw(two).RLock)
		s.until(one, 2)
		queued := s.locking(s.rw(three).Lock)
		s.until(one, 3)
		last := s.locking(s.rw(four).RLock)
		s.until(one, 4)
		next.waits()
		require.NoError(s, rw.Downgrade(s.ctx(), writer))
		reader := next.got()
		require.NoError(s, writer.Err())
		require.Equal(s, token, writer.Token())
		require.NoError(s, rw.Downgrade(s.ctx(), writer), "it may be repeated")
		queued.waits()
		last.waits()
		list, err := one.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		for i, kind := range []farsync.Kind{farsync.KindRead, farsync.KindRead, farsync.KindWrite, farsync.KindRead} {
			require.Equal(s, kind, list[i].Kind)
			require.Equal(s, i < 2, list[i].Held)
		}
		s.release(reader)
		queued.waits()
		s.release(writer)
		lease := queued.got()
		require.Greater(s, lease.Token(), token)
		last.waits()
		s.release(lease)
		s.release(last.got())
		s.until(one, 0)
	}},
	{"RWDowngradeLetsReadersOfTheProcessIn", "they come by another gate than the writer did", func(s *scene) {
		one := s.client()
		rw := s.rw(one)
		writer := s.take(rw.Lock)
		reader := s.locking(rw.RLock)
		s.until(one, 2)
		behind := s.locking(rw.Lock) // waits for a turn, which no reader hands on
		require.NoError(s, rw.Downgrade(s.ctx(), writer))
		first := reader.got()
		s.release(writer)
		behind.waits()
		s.release(first)
		s.release(behind.got())
		s.until(one, 0)
	}},
	{"RWDowngradeByItsHolderOnly", "Curator's throws for any other caller", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		writer := s.take(rw.Lock)
		require.Error(s, s.rw(two).Downgrade(s.ctx(), writer), "another store")
		require.Error(s, farsync.NewRWMutex(one, s.path+"-other").Downgrade(s.ctx(), writer), "another path")
		exclusive := s.take(farsync.NewMutex(one, s.path+"-mutex").Lock)
		require.Error(s, farsync.NewRWMutex(one, s.path+"-mutex").Downgrade(s.ctx(), exclusive), "another lock")
		s.release(exclusive)
		require.NoError(s, writer.Err())
		_, err := s.rw(two).TryRLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked, "it still writes")
		s.release(writer)
		require.ErrorIs(s, rw.Downgrade(s.ctx(), writer), farsync.ErrReleased)
		lost := s.take(rw.Lock)
		s.Expire(s.T, one)
		<-lost.Done()
		require.ErrorIs(s, rw.Downgrade(s.ctx(), lost), farsync.ErrLost)
		require.ErrorIs(s, lost.Release(), farsync.ErrLost)
		lost = s.take(rw.Lock)
		s.Delete(s.T, s.until(one, 1)[0])
		require.ErrorIs(s, rw.Downgrade(s.ctx(), lost), farsync.ErrLost)
		require.ErrorIs(s, lost.Err(), farsync.ErrLost)
		require.ErrorIs(s, lost.Release(), farsync.ErrLost)
		s.release(s.take(rw.Lock))
	}},
	{"RWDowngradeOnAnEndedContext", "nothing was asked for, so nothing has changed", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		writer := s.take(rw.Lock)
		ctx, cancel := context.WithCancel(s.ctx())
		cancel()
		for range 20 {
			require.ErrorIs(s, rw.Downgrade(ctx, writer), context.Canceled)
			require.NoError(s, writer.Err())
		}
		_, err := s.rw(two).TryRLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		require.NoError(s, rw.Downgrade(s.ctx(), writer))
		s.release(s.take(s.rw(two).RLock))
		s.release(writer)
	}},
	{"RWDowngradeWhileReleased", "whichever is quicker, nothing may stay in the queue", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		for range 20 {
			writer := s.take(rw.Lock)
			var both sync.WaitGroup
			both.Go(func() { _ = rw.Downgrade(s.ctx(), writer) })
			both.Go(func() { _ = writer.Release() })
			both.Wait()
			require.Error(s, writer.Err())
			s.release(s.take(s.rw(two).Lock))
		}
		s.until(one, 0)
	}},
	{"RWLostReaderLetsTheWriterIn", "readers die, too", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		first, second := s.take(s.rw(one).RLock), s.take(s.rw(two).RLock)
		writer := s.locking(s.rw(three).Lock)
		s.until(three, 3)
		s.Expire(s.T, one)
		<-first.Done()
		require.ErrorIs(s, first.Err(), farsync.ErrLost)
		require.ErrorIs(s, first.Release(), farsync.ErrLost)
		writer.waits()
		s.release(second)
		s.release(writer.got())
	}},
	{"RWLockers", "code that was written for sync.RWMutex takes a Locker of each side", func(s *scene) {
		one, two := s.client(), s.client()
		w := s.rw(one).Locker(s.ctx(), nil)
		readers := []sync.Locker{s.rw(two).RLocker(s.ctx(), nil), s.rw(one).RLocker(s.ctx(), nil)}
		section := NewSection(s, int64(len(readers)))
		var all sync.WaitGroup
		all.Go(func() {
			for range 5 {
				w.Lock()
				section.Visit(s.Context(), nil, int64(len(readers)))
				w.Unlock()
			}
		})
		for _, r := range readers {
			all.Go(func() {
				for range 5 {
					r.Lock()
					section.Visit(s.Context(), nil, 1)
					r.Unlock()
				}
			})
		}
		all.Wait()
		readers[0].Lock()
		readers[1].Lock()
		readers[0].Unlock()
		readers[1].Unlock()
		s.until(one, 0)
	}},
}

type contextKey struct{}

// drain releases what the lockings get, in whatever order they get it.
func (s *scene) drain(all ...*locking) {
	s.Helper()
	var released sync.WaitGroup
	for _, l := range all {
		released.Go(func() {
			<-l.done
			if l.err != nil {
				s.Error(l.err)
				return
			}
			if err := giveBack(l.lease); err != nil {
				s.Error(err)
			}
		})
	}
	released.Wait()
}
