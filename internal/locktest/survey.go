package locktest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// surveyed returns what a survey of the scene's paths shows.
func (s *scene) surveyed(store *farsync.Store) (locks []farsync.LockInfo) {
	s.Helper()
	for lock, err := range store.Survey(s.ctx(), s.path+"/") {
		require.NoError(s, err)
		locks = append(locks, lock)
	}
	return locks
}

var surveyRows = []row{
	{"SurveyShowsWhoHoldsWhat", "an operator does not know the names of the locks that are stuck", func(s *scene) {
		one, two := s.client(), s.client()
		require.Empty(s, s.surveyed(two))
		mutex := farsync.NewMutex(one, s.path+"/mutex")
		lease := s.lock(mutex)
		behind := s.locking(farsync.NewMutex(two, s.path+"/mutex").Lock)
		reader := s.take(farsync.NewRWMutex(one, s.path+"/rw").RLock)
		other := s.take(farsync.NewRWMutex(two, s.path+"/rw").RLock)
		units := s.take(func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(one, s.path+"/semaphore", 3).Acquire(ctx, 2)
		})
		more := s.locking(func(ctx context.Context) (*farsync.Lease, error) {
			return farsync.NewSemaphore(two, s.path+"/semaphore", 3).Acquire(ctx, 2)
		})
		leader := s.take(campaign(farsync.NewElection(one, s.path+"/leader"), "me"))
		s.untilAt(one, s.path+"/mutex", 2)
		s.untilAt(one, s.path+"/semaphore", 2)

		locks := s.surveyed(two)
		shown := map[string][]bool{}
		for i, lock := range locks {
			if i > 0 {
				require.Less(s, locks[i-1].Path, lock.Path)
			}
			for _, p := range lock.Participants {
				shown[lock.Path] = append(shown[lock.Path], p.Held)
				require.NotEmpty(s, p.Holder)
				require.NotEmpty(s, p.ID)
			}
			require.Equal(s, map[string]int64{s.path + "/semaphore": 3}[lock.Path], lock.Size)
		}
		require.Equal(s, map[string][]bool{
			s.path + "/mutex": {true, false}, s.path + "/rw": {true, true}, s.path + "/semaphore": {true, false}, s.path + "/leader": {true},
		}, shown)
		require.Equal(s, leader.Token(), locks[0].Participants[0].Token)
		require.Equal(s, "me", locks[0].Participants[0].Holder)

		for lock, err := range two.Survey(s.ctx(), s.path) {
			require.NoError(s, err)
			require.Equal(s, locks[0], lock)
			break // a survey that is left asks no more
		}
		for _, err := range two.Survey(canceled(), s.path) {
			require.ErrorIs(s, err, context.Canceled)
		}
		for _, l := range []*farsync.Lease{lease, reader, other, units, leader} {
			s.release(l)
		}
		s.release(behind.got())
		s.release(more.got())
		require.Empty(s, s.surveyed(one))
	}},
}
