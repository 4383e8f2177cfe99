package locktest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// refused makes sure that a Try was refused by what it is in the way of, which its text names.
func (s *scene) refused(err error, by string) {
	s.Helper()
	require.ErrorIs(s, err, farsync.ErrLocked)
	require.ErrorContains(s, err, by)
}

var lockedRows = []row{
	{"TryLockNamesTheHolder", "whoever is kept out asks next by whom, and the Try has seen it", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		lease := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(three).Lock)
		list := s.until(two, 2)
		words, _, _ := strings.Cut(string(list[0].Value), "\n")
		holder := fmt.Sprintf("held by %q", words)
		if s.Nameless {
			holder = fmt.Sprintf("held by entry %q", list[0].ID)
		}
		_, err := s.mutex(two).TryLock(s.ctx())
		s.refused(err, holder)
		_, err = farsync.NewReentrantMutex(two, s.path).TryLock(s.ctx())
		s.refused(err, holder)
		_, err = s.mutex(one).TryLock(s.ctx())
		s.refused(err, fmt.Sprintf("held in this process, by %q", words))
		s.release(lease)
		s.release(behind.got())
		lease = s.take(s.rw(one).Lock)
		list = s.until(two, 1)
		if s.Nameless {
			holder = fmt.Sprintf("entry %q", list[0].ID)
		}
		_, err = s.rw(two).TryLock(s.ctx())
		s.refused(err, holder)
		_, err = s.rw(two).TryRLock(s.ctx())
		s.refused(err, holder)
		s.release(lease)
	}},
}
