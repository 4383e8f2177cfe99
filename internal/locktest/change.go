package locktest

import (
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// changeRows are about an entry that is changed in its place, and about words that are left with it.
var changeRows = []row{
	{"RWDowngradedGoesWithItsSession", "a reader that was a writer must not outlive its process", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		lease := s.take(rw.Lock)
		require.NoError(s, rw.Downgrade(s.ctx(), lease))
		writer := s.locking(s.rw(two).Lock)
		s.until(two, 2)
		writer.waits()
		s.Expire(s.T, one)
		s.release(writer.got())
		<-lease.Done()
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.until(two, 0)
	}},
	{"RWReadersWaitForStrangers", "what another program asks for is not known, so it counts as exclusive", func(s *scene) {
		one := s.client()
		foreign := s.Foreign(s.T, s.path)
		_, err := s.rw(one).TryRLock(s.ctx())
		require.ErrorIs(s, err, farsync.ErrLocked)
		reader := s.locking(s.rw(one).RLock)
		s.until(one, 2)
		reader.waits()
		s.Delete(s.T, foreign)
		s.release(reader.got())
	}},
	{"AskIsNoChange", "to be asked for it is not to have given it up, nor to have become a reader", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		lease := s.take(rw.Lock)
		reader := s.locking(s.rw(two).RLock)
		before := s.until(two, 2)
		require.NoError(s, two.Ask(s.ctx(), s.path))
		require.NoError(s, two.Ask(s.ctx(), s.path), "more than once")
		s.asked(lease)
		require.NoError(s, lease.Err())
		reader.waits()
		after := s.until(two, 2)
		for i := range before {
			require.Equal(s, before[i].Revision, after[i].Revision)
			require.Equal(s, before[i].Kind, after[i].Kind)
		}
		require.NoError(s, rw.Downgrade(s.ctx(), lease), "a writer that was asked can still turn into a reader")
		s.release(reader.got())
		require.NoError(s, two.Ask(s.ctx(), s.path), "and be asked again")
		s.release(lease)
		s.until(two, 0)
	}},
	{"AskOfOnesOwnStore", "a process may ask itself", func(s *scene) {
		one := s.client()
		lease := s.lock(s.mutex(one))
		s.notAsked(lease)
		require.NoError(s, one.Ask(s.ctx(), s.path))
		s.asked(lease)
		s.release(lease)
		next := s.lock(s.mutex(one))
		s.notAsked(next)
		s.release(next)
	}},
	{"AskedOfARemovedEntry", "a listener must not hang on what is gone", func(s *scene) {
		one := s.client()
		lease := s.lock(s.mutex(one))
		s.notAsked(lease)
		s.Delete(s.T, s.until(one, 1)[0])
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)
		s.notAsked(lease)
	}},
	{"ElectionObservesStrangers", "another program's candidate is one, too", func(s *scene) {
		one := s.client()
		sights, _ := s.observing(s.election(one))
		s.see(sights, "")
		foreign := s.Foreign(s.T, s.path)
		leader := s.seeAny(sights)
		require.NotZero(s, leader.Token)
		s.Delete(s.T, foreign)
		s.see(sights, "")
	}},
	{"ElectionObservesTheLastState", "between a look at a queue that is empty and the wait it may be filled, and the other way round", func(s *scene) {
		one, two := s.client(), s.client()
		e := s.election(one)
		for range 20 {
			sights, stop := s.observing(s.election(two))
			lease := s.take(campaign(e, "one"))
			require.Equal(s, lease.Token(), s.see(sights, "one").Token)
			s.release(lease)
			s.see(sights, "")
			stop()
		}
	}},
}

// seeAny waits until some leader is seen.
func (s *scene) seeAny(sights <-chan sight) farsync.Leader {
	s.Helper()
	ctx := s.ctx()
	for {
		select {
		case now := <-sights:
			if now.err == nil {
				return now.leader
			}
		case <-ctx.Done():
			require.FailNow(s, "no leader was seen")
		}
	}
}
