package locktest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// shownAt returns the participants of a mutex below the scene's path, once there are n.
func (s *scene) shownAt(store *farsync.Store, name string, n int) []farsync.Participant {
	s.Helper()
	s.untilAt(store, s.path+name, n)
	list, err := store.Participants(s.ctx(), s.path+name)
	require.NoError(s, err)
	require.Len(s, list, n)
	return list
}

// id returns the ID of the one participant of a mutex below the scene's path.
func (s *scene) id(store *farsync.Store, name string) string {
	s.Helper()
	return s.shownAt(store, name, 1)[0].ID
}

var underRows = []row{
	{"IDIsThatOfTheParticipant", "a lease is found among the participants, also after a hand-over, when the token is not", func(s *scene) {
		one, two := s.client(), s.client()
		leases := map[string]*farsync.Lease{
			"/mutex":    s.lock(farsync.NewMutex(one, s.path+"/mutex")),
			"/reader":   s.take(farsync.NewRWMutex(one, s.path+"/reader").RLock),
			"/writer":   s.take(farsync.NewRWMutex(one, s.path+"/writer").Lock),
			"/permit":   s.take(units(farsync.NewSemaphore(one, s.path+"/permit", 3), 2)),
			"/election": s.take(campaign(farsync.NewElection(one, s.path+"/election"), "me")),
		}
		behind := s.locking(farsync.NewMutex(one, s.path+"/mutex").Lock)
		s.release(leases["/mutex"])
		leases["/mutex"] = behind.got()
		require.NoError(s, farsync.NewRWMutex(one, s.path+"/writer").Downgrade(s.ctx(), leases["/writer"]))
		for name, lease := range leases {
			require.Equal(s, s.id(two, name), lease.ID(), name)
			s.release(lease)
		}
	}},
	{"UnderSaysWhatAWaiterHolds", "two that wait for each other are found by what they hold meanwhile", func(s *scene) {
		one, two := s.client(), s.client()
		below := func(store *farsync.Store, name string) *farsync.Mutex { return farsync.NewMutex(store, s.path+name) }
		outer := s.lock(below(one, "/outer"))
		ctx, cancel := outer.Context(s.ctx())
		defer cancel()
		inner := s.take(func(context.Context) (*farsync.Lease, error) {
			return farsync.NewRWMutex(one, s.path+"/inner").RLock(ctx)
		})
		ctx, cancel = inner.Context(ctx)
		defer cancel()
		other := s.lock(below(two, ""))
		waits := s.locking(func(context.Context) (*farsync.Lease, error) { return below(one, "").Lock(ctx) })
		list := s.shownAt(two, "", 2)
		require.Empty(s, list[0].Under)
		require.Equal(s, []string{s.id(two, "/inner"), s.id(two, "/outer")}, list[1].Under, "the innermost first")
		require.Equal(s, list[0].Holder, s.shownAt(one, "", 2)[0].Holder)
		require.NotContains(s, list[1].Holder, "under")
		require.Equal(s, []string{s.id(two, "/outer")}, s.shownAt(two, "/inner", 1)[0].Under)
		s.release(other)
		s.release(waits.got())
		s.release(inner)
		s.release(outer)
	}},
	{"UnderManyMembers", "each of them is kept while the next lock is waited for", func(s *scene) {
		one, two := s.client(), s.client()
		multi, err := farsync.NewMultiMutex(s.members(one, "a", "b")...).Lock(s.ctx())
		require.NoError(s, err)
		ctx, cancel := multi.Context(s.ctx())
		defer cancel()
		inner := s.take(func(context.Context) (*farsync.Lease, error) { return s.mutex(one).Lock(ctx) })
		require.ElementsMatch(s, []string{s.id(two, "/a"), s.id(two, "/b")}, s.shownAt(two, "", 1)[0].Under)
		s.release(inner)
		require.NoError(s, multi.Release())
		inner = s.take(func(context.Context) (*farsync.Lease, error) { return s.mutex(one).Lock(context.WithoutCancel(ctx)) })
		require.Empty(s, s.shownAt(two, "", 1)[0].Under, "what was released keeps nothing")
		s.release(inner)
	}},
	{"UnderIsOfOneStore", "another Store may be another service, with other entries of these names", func(s *scene) {
		one, two := s.client(), s.client()
		outer := s.lock(farsync.NewMutex(one, s.path+"/outer"))
		ctx, cancel := outer.Context(s.ctx())
		defer cancel()
		inner := s.take(func(context.Context) (*farsync.Lease, error) { return s.mutex(two).Lock(ctx) })
		require.Empty(s, s.shownAt(one, "", 1)[0].Under)
		s.release(inner)
		leader := s.take(func(context.Context) (*farsync.Lease, error) {
			return farsync.NewElection(one, s.path+"/leader").Campaign(ctx, "me")
		})
		seen, err := farsync.NewElection(two, s.path+"/leader").Leader(s.ctx())
		require.NoError(s, err)
		require.Equal(s, "me", seen.Value, "a candidate's value is its own")
		s.release(leader)
		s.release(outer)
	}},
}
