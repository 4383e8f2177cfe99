package locktest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

var guardRows = []row{
	{"GuardEndsTheTurns", "a guard that was taken for one turn must not let its owner write during the next", func(s *scene) {
		one := s.client()
		mu := s.mutex(one)
		for range 10 {
			first := s.lock(mu)
			entries := GuardEntries(s, first)
			require.Len(s, entries, 1)
			next := s.locking(mu.Lock)
			require.NoError(s, pause.For(s.Context(), time.Millisecond)) // it waits for a turn
			s.release(first)
			second := next.got()
			require.NotEqual(s, entries[0].Revision, second.Token().Revision())
			s.unguarded(first)
			s.release(second)
		}
	}},
	{"GuardOfAnEarlierTurn", "a turn that is over has no guard, though the entry that it stood on is held", func(s *scene) {
		one := s.client()
		mu := s.mutex(one)
		turns := 0
		for range 10 {
			first := s.lock(mu)
			next := s.locking(mu.Lock)
			require.NoError(s, pause.For(s.Context(), time.Millisecond))
			s.release(first)
			second := next.got()
			s.unguarded(first)
			if second.Token().Revision() == first.Token().Revision() {
				turns++
			}
			third := s.locking(mu.Lock)
			require.Len(s, GuardEntries(s, second), 1)
			s.release(second)
			require.NotEqual(s, second.Token().Revision(), third.got().Token().Revision())
			s.release(third.lease)
		}
		s.Logf("%d of 10 as a further turn", turns)
	}},
	{"GuardOfReaders", "readers that share an entry are all done before a writer comes, whatever guard they hold", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		first, second := s.take(rw.RLock), s.take(rw.RLock)
		entries := GuardEntries(s, first)
		writer := s.locking(s.rw(two).Lock)
		s.release(first)
		list := s.until(two, 2)
		writer.waits()
		third := s.locking(rw.RLock)
		if first.Token().Revision() == second.Token().Revision() {
			require.Equal(s, entries[0].ID, list[0].ID, "the guard of the first commits, and no writer has held")
			s.until(two, 3) // behind the writer, with an entry of its own
			third.waits()
		}
		s.release(second)
		s.drain(writer, third)
	}},
	{"GuardOfAnOwner", "of an owner that has entered twice the first guard stays good until both have left", func(s *scene) {
		one := s.client()
		mu := farsync.NewReentrantMutex(one, s.path)
		first, second := s.take(mu.Lock), s.take(mu.Lock)
		require.Equal(s, first.ID(), second.ID())
		third := s.take(mu.Lock)
		require.Equal(s, first.ID(), third.ID(), "an owner still enters")
		s.release(second)
		s.unguarded(second)
		require.Len(s, GuardEntries(s, first), 1)
		s.release(first)
		s.release(third)
		s.until(one, 0)
	}},
}

// unguarded requires that a Guard is given nothing of a lease, because it has ended.
func (s *scene) unguarded(lease farsync.Guarded) {
	s.Helper()
	entries, err := lease.GuardEntries()
	require.Empty(s, entries)
	require.Error(s, err)
}
