package locktest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

var oneselfRows = []row{
	{"OneselfIsNotWaitedFor", "a function that locks, called by one that has locked, hangs until its lease is lost", func(s *scene) {
		one, two := s.client(), s.client()
		for _, k := range kinds {
			if k.name == "MultiMutex" {
				continue
			}
			held := s.take(k.lock(one, s.path))
			ctx, cancel := held.Context(s.ctx())
			for _, again := range kinds {
				if k.family != again.family || k.shared {
					continue
				}
				if k.name == "ReentrantMutex" && again.name == k.name {
					continue // it enters again: see reentrantRows
				}
				want := farsync.ErrDeadlock
				_, err := again.lock(one, s.path)(ctx)
				require.ErrorIs(s, err, want, "%s under %s", again.name, k.name)
				require.ErrorContains(s, err, "wait for itself")
				require.NotErrorIs(s, err, farsync.ErrLocked, "it is no other client that has it")
				if again.try != nil {
					_, err = again.try(one, s.path)(ctx)
					require.ErrorIs(s, err, want)
					require.NotErrorIs(s, err, farsync.ErrLocked, "a job that filters ErrLocked would never run, and never say so")
				}
				waits := s.locking(again.lock(two, s.path)) // not oneself
				s.until(one, 2)
				waits.cancel()
				<-waits.done
				s.until(one, 1)
			}
			cancel()
			s.release(held)
			if lease, err := k.lock(one, s.path)(context.WithoutCancel(ctx)); lease != nil {
				require.NoError(s, err, "after the release there is nothing to wait for")
				s.release(lease)
			}
		}
		s.until(two, 0)
	}},
	{"OneselfInAMultiMutex", "a member that one holds already is waited for in the midst of the others", func(s *scene) {
		one := s.client()
		members := s.members(one, "a", "b")
		multi := farsync.NewMultiMutex(members...)
		lease := s.lock(members[1])
		ctx, cancel := lease.Context(s.ctx())
		defer cancel()
		_, err := multi.Lock(ctx)
		require.ErrorIs(s, err, farsync.ErrDeadlock)
		require.ErrorContains(s, err, s.path+"/b")
		s.untilAt(one, s.path+"/a", 0)
		s.release(lease)
		all, err := multi.Lock(s.ctx())
		require.NoError(s, err)
		ctx, cancel = all.Context(s.ctx())
		defer cancel()
		for _, mu := range members {
			_, err := mu.Lock(ctx)
			require.ErrorIs(s, err, farsync.ErrDeadlock)
		}
		require.NoError(s, all.Release())
	}},
	{"OneselfElsewhere", "a lease is of one path on one Store", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		ctx, cancel := lease.Context(s.ctx())
		defer cancel()
		nested := s.take(func(context.Context) (*farsync.Lease, error) { return farsync.NewMutex(one, s.path+"-other").Lock(ctx) })
		_, err := s.mutex(two).TryLock(ctx)
		require.ErrorIs(s, err, farsync.ErrLocked)
		require.NotErrorIs(s, err, context.Canceled)
		require.NotErrorIs(s, err, farsync.ErrDeadlock)
		s.release(nested)
		s.release(lease)
	}},
}
