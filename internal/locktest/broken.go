package locktest

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// holding returns the tokens of those that hold, as another client sees them.
func (s *scene) holding(store *farsync.Store) (tokens []farsync.Token) {
	s.Helper()
	list, err := s.mutex(store).Participants(s.ctx()) // of whatever kind
	require.NoError(s, err)
	for _, p := range list {
		if p.Held {
			tokens = append(tokens, p.Token)
		}
	}
	return tokens
}

// breaks breaks the lease with that token.
func (s *scene) breaks(by *farsync.Store, token farsync.Token) {
	s.Helper()
	require.NoError(s, farsync.Break(s.ctx(), by, s.path, token, &farsync.BreakOptions{Why: "stuck since noon"}))
}

// broken makes sure that a lease was broken, and knows why.
func (s *scene) broken(lease *farsync.Lease) {
	s.Helper()
	err := lease.Err()
	require.ErrorIs(s, err, farsync.ErrLost)
	require.ErrorIs(s, err, farsync.ErrBroken)
	require.ErrorContains(s, err, "stuck since noon")
	<-lease.Done()
	require.ErrorIs(s, lease.Release(), farsync.ErrBroken)
}

var breakRows = []row{
	{"BreakEndsALeaseBeforeTheNextHolds", "a holder that is stuck keeps everybody out, and must not work beside the next", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		lease := s.lock(s.mutex(one))
		behind := s.locking(func(ctx context.Context) (*farsync.Lease, error) {
			next, err := s.mutex(two).Lock(ctx)
			return next, errors.Join(err, requireEnded(lease))
		})
		s.until(two, 2)
		held := s.holding(three)
		require.Equal(s, []farsync.Token{lease.Token()}, held)
		s.breaks(three, held[0])
		next := behind.got()
		s.broken(lease)
		require.Greater(s, next.Token(), lease.Token())
		s.release(next)
		s.release(s.lock(s.mutex(one))) // the Store and the mutex stay usable
	}},
	{"BreakNamesOneLease", "who looked a minute ago must not end the lease of another", func(s *scene) {
		one, two := s.client(), s.client()
		first := s.lock(s.mutex(one))
		s.release(first)
		second := s.lock(s.mutex(one))
		err := farsync.Break(s.ctx(), two, s.path, first.Token(), nil)
		require.ErrorIs(s, err, farsync.ErrReleased)
		require.NoError(s, second.Err())
		s.release(second)
		require.ErrorIs(s, farsync.Break(s.ctx(), two, s.path, second.Token(), nil), farsync.ErrReleased)
		require.ErrorIs(s, farsync.Break(canceled(), two, s.path, 1, nil), context.Canceled)
		require.ErrorIs(s, farsync.Break(s.ctx(), two, "no path", 1, nil), farsync.ErrName)
	}},
	{"BreakEndsOneReaderOfMany", "the others have done nothing", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		first, second := s.take(s.rw(one).RLock), s.take(s.rw(two).RLock)
		writer := s.locking(s.rw(three).Lock)
		s.until(three, 3)
		s.breaks(three, first.Token())
		s.broken(first)
		writer.waits()
		require.NoError(s, second.Err())
		s.release(second)
		s.release(writer.got())
	}},
	{"BreakEndsALeader", "an office, too, is held by those that are stuck", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		lease := s.take(campaign(s.election(one), "one"))
		next := s.locking(campaign(s.election(two), "two"))
		s.until(two, 2)
		s.breaks(three, lease.Token())
		s.broken(lease)
		s.release(next.got())
	}},
	{"BreakAfterAnAsk", "one asks first", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		require.NoError(s, s.mutex(two).Ask(s.ctx()))
		s.asked(lease)
		require.NoError(s, lease.Err())
		s.breaks(two, lease.Token())
		s.broken(lease)
	}},
	{"BreakRemovesWhatCannotHear", "a client of another program knows no such word", func(s *scene) {
		one, two := s.client(), s.client()
		s.Foreign(s.T, s.path)
		behind := s.locking(s.mutex(one).Lock)
		s.until(two, 2)
		held := s.holding(two)
		require.Len(s, held, 1)
		require.NoError(s, farsync.Break(s.ctx(), two, s.path, held[0], &farsync.BreakOptions{Remove: true}))
		s.release(behind.got())
	}},
}

// requireEnded returns an error if a lease is held.
func requireEnded(lease *farsync.Lease) error {
	if lease.Err() == nil {
		return errors.New("the next holds before the lease has ended")
	}
	return nil
}
