package locktest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// entries are an owner of what a row makes up.
type entries []driver.Entry

func (e entries) GuardEntries() ([]driver.Entry, error) { return e, nil }

// guardedRows are for a backend with a Guard. Each guard is used at once, and later too, as by a holder that was stopped.
var guardedRows = []row{
	{"GuardedWhileHeld", "what a lock protects is written by its holder alone, however late the write comes", func(s *scene) {
		mu := s.mutex(s.client())
		lease := s.lock(mu)
		write := s.Guard(s.T, lease)
		for range 2 {
			require.True(s, write(), "as often as the holder likes")
		}
		require.True(s, s.Guard(s.T, lease)())
		s.release(lease)
		require.False(s, write(), "made while it was held")
		require.False(s, s.Guard(s.T, lease)(), "made after")
		next := s.lock(mu)
		require.False(s, write(), "the lease of before, while the same Mutex is held again")
		require.True(s, s.Guard(s.T, next)())
		s.release(next)
	}},
	{"GuardedTurns", "goroutines that take turns on one entry do not write in each other's turn", func(s *scene) {
		mu := s.mutex(s.client())
		for range 10 {
			first := s.lock(mu)
			write := s.Guard(s.T, first)
			require.True(s, write())
			next := s.locking(mu.Lock)
			require.NoError(s, pause.For(s.Context(), time.Millisecond)) // it waits for a turn
			s.release(first)
			second := next.got()
			require.False(s, write())
			require.True(s, s.Guard(s.T, second)())
			s.release(second)
		}
	}},
	{"GuardedLoss", "the service knows that a lock is lost before its holder does", func(s *scene) {
		one := s.client()
		lease := s.lock(s.mutex(one))
		write := s.Guard(s.T, lease)
		s.Expire(s.T, one)
		require.False(s, write())
		require.False(s, s.Guard(s.T, lease)())
		require.ErrorIs(s, lease.Release(), farsync.ErrLost)

		lease = s.lock(s.mutex(one))
		write = s.Guard(s.T, lease)
		require.NoError(s, one.Close())
		require.False(s, write(), "a Store that was closed holds nothing")
		require.False(s, s.Guard(s.T, lease)())
	}},
	{"GuardedRemoval", "an operator who removes a lock has its holder write no more", func(s *scene) {
		lease := s.lock(s.mutex(s.client()))
		write := s.Guard(s.T, lease)
		s.Delete(s.T, GuardEntries(s, lease)[0])
		require.False(s, write())
	}},
	{"GuardedByAnother", "a guard is of entries that are held, of all of them, and of nothing else", func(s *scene) {
		one := s.client()
		both, err := farsync.NewMultiMutex(s.mutex(one), farsync.NewMutex(one, s.path+"-other")).Lock(s.ctx())
		require.NoError(s, err)
		mine := GuardEntries(s, both)
		require.Len(s, mine, 2)
		require.True(s, s.Guard(s.T, both)())
		another := mine[0]
		another.ID += "0"
		for name, owner := range map[string]entries{"nothing": nil, "another entry": {another}, "one of two": {mine[1], another}} {
			require.False(s, s.Guard(s.T, owner)(), name)
		}
		s.Delete(s.T, mine[1])
		require.False(s, s.Guard(s.T, both)(), "one of two was removed")
		require.ErrorIs(s, both.Release(), farsync.ErrLost)
	}},
}
