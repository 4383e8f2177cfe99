package locktest

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// members returns mutexes on paths of the scene's, told apart by the names.
func (s *scene) members(store *farsync.Store, names ...string) []*farsync.Mutex {
	var members []*farsync.Mutex
	for _, name := range names {
		members = append(members, farsync.NewMutex(store, s.path+"/"+name))
	}
	return members
}

var multiRows = []row{
	{"MultiNeverDeadlocks", "two that take the same locks in turned order wait for each other for ever", func(s *scene) {
		sections := [3]*Section{NewSection(s, 1), NewSection(s, 1), NewSection(s, 1)}
		var all sync.WaitGroup
		ctx := s.ctx()
		for range 3 {
			store := s.client()
			all.Go(func() {
				for range 6 {
					order := rand.Perm(3)[:2]
					names := []string{"a", "b", "c"}
					mu := farsync.NewMultiMutex(s.members(store, names[order[0]], names[order[1]])...)
					lease, err := mu.Lock(ctx)
					if err != nil {
						s.Error(err)
						return
					}
					leave := sections[order[0]].Enter(lease, 1)
					sections[order[1]].Visit(ctx, lease, 1)
					leave()
					if err := giveBack(lease); err != nil {
						s.Error(err)
					}
				}
			})
		}
		all.Wait()
	}},
	{"MultiLocksAMemberThatComesTwiceOnce", "a transfer from an account to itself waits for itself", func(s *scene) {
		lease, err := farsync.NewMultiMutex(s.members(s.client(), "b", "a", "b")...).Lock(s.ctx())
		require.NoError(s, err)
		require.Len(s, GuardEntries(s, lease), 2)
		tokens := lease.Tokens()
		require.Len(s, tokens, 3)
		require.Equal(s, tokens[0], tokens[2])
		require.NotZero(s, tokens[1])
		require.NoError(s, lease.Release())
	}},
	{"MultiTriesAllOrNone", "who does not wait must not keep a part", func(s *scene) {
		one, two := s.client(), s.client()
		multi := farsync.NewMultiMutex(s.members(one, "a", "b", "c")...)
		taken := s.lock(s.members(two, "b")[0])
		_, err := multi.TryLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		require.ErrorContains(s, err, s.path+"/b")
		s.untilAt(two, s.path+"/a", 0)
		s.untilAt(two, s.path+"/c", 0)
		s.release(taken)
		lease, err := multi.TryLock(s.ctx())
		require.NoError(s, err)
		require.Len(s, GuardEntries(s, lease), 3)
		require.NoError(s, giveBack(lease))
		for _, name := range []string{"/a", "/b", "/c"} {
			s.untilAt(two, s.path+name, 0)
		}
	}},
	{"MultiIsAskedForAnyMember", "who needs one of them does not know of the others", func(s *scene) {
		one, two := s.client(), s.client()
		lease, err := farsync.NewMultiMutex(s.members(one, "a", "b")...).Lock(s.ctx())
		require.NoError(s, err)
		asked := lease.Asked()
		require.NoError(s, two.Ask(s.ctx(), s.path+"/b"))
		<-asked
		require.NoError(s, lease.Err())
		require.NoError(s, giveBack(lease))
	}},
	{"MultiGivesTokensInTheOrderOfItsMembers", "a token that guards the wrong resource guards none", func(s *scene) {
		one := s.client()
		names := []string{"b", "c", "a"}
		multi := farsync.NewMultiMutex(s.members(one, names...)...)
		lease, err := multi.Lock(s.ctx())
		require.NoError(s, err)
		require.NoError(s, lease.Err())
		require.Len(s, GuardEntries(s, lease), 3)
		for i, name := range names {
			list, err := one.Participants(s.ctx(), s.path+"/"+name)
			require.NoError(s, err)
			require.Equal(s, list[0].Token, lease.Tokens()[i])
			require.False(s, lease.Deadline().IsZero())
		}
		require.NoError(s, giveBack(lease))
		require.ErrorIs(s, lease.Err(), farsync.ErrReleased)
		require.ErrorIs(s, lease.Release(), farsync.ErrReleased)
		s.unguarded(lease)
		<-lease.Done()
		for _, mu := range s.members(one, names...) {
			s.release(s.lock(mu))
		}
	}},
	{"MultiRollsBack", "locks that are left taken by one that failed are left for ever (Curator's are)", func(s *scene) {
		one, two := s.client(), s.client()
		members := s.members(one, "a", "b", "c")
		theirs := s.lock(s.members(two, "b")[0])
		ctx, cancel := context.WithCancel(s.ctx())
		done := make(chan error)
		go func() {
			_, err := farsync.NewMultiMutex(members...).Lock(ctx)
			done <- err
		}()
		s.untilAt(two, s.path+"/b", 2)
		_, err := s.members(two, "a")[0].TryLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		s.release(s.lock(s.members(two, "c")[0]))
		cancel()
		require.ErrorIs(s, <-done, context.Canceled)
		s.untilAt(two, s.path+"/a", 0)
		s.untilAt(two, s.path+"/b", 1)
		s.untilAt(two, s.path+"/c", 0)
		s.release(theirs)
	}},
	{"MultiEndsWithTheFirstThatIsLost", "some of the locks are none", func(s *scene) {
		one, two := s.client(), s.client()
		a, b := s.members(one, "a")[0], s.members(two, "b")[0]
		first := s.lock(a)
		s.release(first)
		lease, err := farsync.NewMultiMutex(s.members(one, "a", "b")...).Lock(s.ctx())
		require.NoError(s, err)
		under, cancel := lease.Context(s.ctx())
		defer cancel()
		behind := s.locking(b.Lock)
		s.untilAt(two, s.path+"/b", 2)
		s.Expire(s.T, one)
		<-lease.Done()
		<-under.Done()
		require.ErrorIs(s, lease.Err(), farsync.ErrLost)
		require.ErrorIs(s, context.Cause(under), farsync.ErrLost)
		s.unguarded(lease)
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		require.ErrorIs(s, lease.Release(), farsync.ErrReleased)
		require.ErrorIs(s, lease.Err(), farsync.ErrLost, "the first cause stays")
		s.release(behind.got())
		s.untilAt(two, s.path+"/a", 0)
	}},
	{"MultiReleaseTellsOfARemovedEntry", "what is not confirmed of one must not hide behind the others", func(s *scene) {
		one := s.client()
		lease, err := farsync.NewMultiMutex(s.members(one, "a", "b")...).Lock(s.ctx())
		require.NoError(s, err)
		s.Delete(s.T, s.untilAt(one, s.path+"/a", 1)[0])
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.untilAt(one, s.path+"/b", 0)
	}},
	{"MultiGivesUpWhenAMemberIsLost", "waiting for the rest makes no sense, and the caller has not given up", func(s *scene) {
		one, two := s.client(), s.client()
		theirs := s.lock(s.members(two, "b")[0])
		done := make(chan error)
		ctx := s.ctx()
		go func() {
			_, err := farsync.NewMultiMutex(s.members(one, "b", "a")...).Lock(ctx)
			done <- err
		}()
		s.untilAt(two, s.path+"/b", 2)
		s.Expire(s.T, one)
		err := <-done
		require.ErrorIs(s, err, farsync.ErrLost)
		require.NotErrorIs(s, err, context.Canceled)
		s.untilAt(two, s.path+"/a", 0)
		s.untilAt(two, s.path+"/b", 1)
		s.release(theirs)
	}},
}
