package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// A request that is carried out late would make or remove an entry that has the key by then.
func TestKeyIsUsedAgainOnlyWhenAllRequestsForItAreOver(t *testing.T) {
	begin := beginOf("/q", driver.Write, 1)
	e := driver.Entry{Queue: "/q", ID: begin + newID(driver.Write), Kind: driver.Write, Units: 1, Revision: 7}
	earlier, unconfirmed, reader, permit := e, e, e, e
	earlier.Revision, unconfirmed.Revision, reader.Kind, permit.Kind = 6, 0, driver.Read, driver.Permit
	for _, row := range []struct {
		name  string
		do    func(s *spare)
		again bool
	}{
		{"one attempt to make it, and one to delete it", func(s *spare) { s.made(e, true); release(s, e) }, true},
		{"as a reader, which keeps its key", func(s *spare) { s.made(e, true); release(s, reader) }, true},
		{"another attempt to make it has found it", func(s *spare) { s.made(e, true); s.made(e, false); release(s, e) }, false},
		{"no attempt was known to be sent once", func(s *spare) { s.made(e, false); release(s, e) }, false},
		{"an attempt to delete it before its revision was known", func(s *spare) { s.made(e, true); s.deleting(unconfirmed); release(s, e) }, false},
		{"an attempt to delete it that was not answered", func(s *spare) { s.made(e, true); s.deleting(e); release(s, e) }, false},
		{"an attempt to delete one before it", func(s *spare) { s.made(e, true); s.deleting(earlier); release(s, e) }, false},
		{"a permit's", func(s *spare) { s.made(permit, true); release(s, permit) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSpare()
			row.do(s)
			require.Empty(t, s.take(beginOf("/q", driver.Read, 1)))
			require.Equal(t, row.again, s.take(begin) == e.ID)
			require.Empty(t, s.take(begin), "once")
		})
	}
	s := newSpare()
	for i := range 3 * mostSpare {
		e := driver.Entry{ID: beginOf("/q", driver.Exclusive, 1) + newID(driver.Exclusive), Kind: driver.Exclusive, Revision: int64(i)}
		s.made(e, true)
		release(s, e)
	}
	kept := 0
	for range 3 * mostSpare {
		if s.take(beginOf("/q", driver.Exclusive, 1)) != "" {
			kept++
		}
	}
	require.Equal(t, mostSpare, kept)
}

// release is one attempt to delete an entry that is answered.
func release(s *spare, e driver.Entry) {
	if _, again := s.deleting(e); again {
		s.deleted(e)
	}
}

// The turn that one gives may be of an older look than what another that has left owes.
func TestEachThatLeavesOwesATurn(t *testing.T) {
	s := newSpare()
	s.owes("/q")
	s.owes("/q")
	s.paid("/q")
	require.Equal(t, []string{"/q"}, s.owed())
	s.paid("/q")
	require.Empty(t, s.owed())
}
