package locktest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// refused makes sure that a Try was refused by an entry, which its text names. The error has the holder of that entry;
// "" if no answer has shown the holder.
func (s *scene) refused(err error, by, holder string) {
	s.Helper()
	require.ErrorIs(s, err, farsync.ErrLocked)
	require.ErrorContains(s, err, by)
	var of *farsync.Error
	require.ErrorAs(s, err, &of)
	require.Equal(s, holder, of.Holder)
}

var lockedRows = []row{
	{"TryLockNamesTheHolder", "whoever is kept out asks next by whom, and the Try has seen it", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		lease := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(three).Lock)
		list := s.until(two, 2)
		words, _, _ := strings.Cut(string(list[0].Value), "\n")
		by := fmt.Sprintf("held by %q", words)
		_, err := s.mutex(two).TryLock(s.ctx())
		s.refused(err, by, words)
		_, err = farsync.NewReentrantMutex(two, s.path).TryLock(s.ctx())
		s.refused(err, by, words)
		_, err = s.mutex(one).TryLock(s.ctx())
		s.refused(err, fmt.Sprintf("held in this process, by %q", words), words)
		s.release(lease)
		s.release(behind.got())
		lease = s.take(s.rw(one).Lock)
		s.until(two, 1)
		_, err = s.rw(two).TryLock(s.ctx())
		s.refused(err, by, words)
		_, err = s.rw(two).TryRLock(s.ctx())
		s.refused(err, by, words)
		s.release(lease)
	}},
}
