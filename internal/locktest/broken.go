package locktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/beneath"
	"github.com/farsync/farsync/recipe"
)

// holding returns the tokens of all holders, as another client sees them.
func (s *scene) holding(store *farsync.Store) (tokens []farsync.Token) {
	s.Helper()
	list, err := store.Participants(s.ctx(), s.path) // of whatever kind
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
	require.NoError(s, by.Break(s.ctx(), s.path, token, &farsync.BreakOptions{Reason: "stuck since noon"}))
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
		err := two.Break(s.ctx(), s.path, first.Token(), nil)
		require.ErrorIs(s, err, farsync.ErrReleased)
		require.NoError(s, second.Err())
		s.release(second)
		require.ErrorIs(s, two.Break(s.ctx(), s.path, second.Token(), nil), farsync.ErrReleased)
		require.ErrorIs(s, two.Break(canceled(), s.path, 1, nil), context.Canceled)
		require.ErrorIs(s, two.Break(s.ctx(), "no path", 1, nil), farsync.ErrPath)
	}},
	{"BreakNamesOneTurn", "a lease that was handed on within a process is another lease, though its entry is the same", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.mutex(one)
		first, second := s.handedOn(mu)
		never := second.Token() + 1
		for _, token := range []farsync.Token{first.Token(), never} {
			err := two.Break(s.ctx(), s.path, token, nil)
			require.ErrorIs(s, err, farsync.ErrReleased)
			require.ErrorContains(s, err, fmt.Sprintf("token %d holds", second.Token()), "whoever has looked can break what is there")
			require.NoError(s, second.Err())
		}
		require.Equal(s, []farsync.Token{second.Token()}, s.holding(one), "its own Store knows the turn")
		require.Eventually(s, func() bool {
			return slices.Equal([]farsync.Token{second.Token()}, s.holding(two)) // once it was held for a while
		}, soon, 10*time.Millisecond)
		require.ErrorIs(s, one.Break(s.ctx(), s.path, first.Token(), nil), farsync.ErrReleased)
		require.NoError(s, second.Err())
		s.breaks(two, second.Token())
		s.broken(second)
		s.release(s.lock(mu))
	}},
	{"BreakOfAnotherTurnLeavesTheName", "who looks afterwards has to see who holds, and what for", func(s *scene) {
		one, two := s.client(), s.client()
		mu := s.mutex(one)
		lease := s.lock(mu)
		before, err := two.Participants(s.ctx(), s.path)
		require.NoError(s, err)
		ctx, cancel := lease.Context(s.ctx())
		defer cancel()
		require.NoError(s, recipe.Explain(ctx, beneath.Store(one), "4711 sleep"))
		require.ErrorIs(s, two.Break(s.ctx(), s.path, lease.Token()+3, nil), farsync.ErrReleased)
		require.Eventually(s, func() bool {
			list, err := two.Participants(s.ctx(), s.path)
			return err == nil && list[0].Holder == before[0].Holder && list[0].WaitsFor == "4711 sleep"
		}, soon, 10*time.Millisecond)
		require.NoError(s, lease.Err())
		s.release(lease)
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
		require.NoError(s, two.Ask(s.ctx(), s.path))
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
		require.NoError(s, two.Break(s.ctx(), s.path, held[0], &farsync.BreakOptions{Remove: true}))
		s.release(behind.got())
	}},
}

// handedOn returns two leases of one mutex. The second was handed the entry of the first.
func (s *scene) handedOn(mu *farsync.Mutex) (first, second *farsync.Lease) {
	s.Helper()
	for {
		first = s.lock(mu)
		behind := s.locking(mu.Lock)
		for range 100 {
			runtime.Gosched() // so that it stands in the line, mostly
		}
		s.release(first)
		second = behind.got()
		if second.Token().Revision() == first.Token().Revision() {
			require.Equal(s, first.Token()+1, second.Token())
			return first, second
		}
		s.release(second) // it came too late to be handed it
	}
}

// requireEnded returns an error if a lease is held.
func requireEnded(lease *farsync.Lease) error {
	if lease.Err() == nil {
		return errors.New("the next holds before the lease has ended")
	}
	return nil
}
