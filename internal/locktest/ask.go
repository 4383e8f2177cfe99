package locktest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// asked waits until a lease was asked for.
func (s *scene) asked(lease *farsync.Lease) {
	s.Helper()
	select {
	case <-lease.Asked():
	case <-s.ctx().Done():
		require.FailNow(s, "was not asked")
	}
}

func (s *scene) notAsked(lease *farsync.Lease) {
	s.Helper()
	select {
	case <-lease.Asked():
		require.FailNow(s, "was asked")
	default:
	}
}

var askRows = []row{
	{"AskReachesTheHolder", "a maintenance job may be ready to give way, if only it knew", func(s *scene) {
		one, two := s.client(), s.client()
		lease := s.lock(s.mutex(one))
		behind := s.locking(s.mutex(two).Lock)
		s.until(one, 2)
		s.notAsked(lease)
		require.NoError(s, two.Ask(s.ctx(), s.path))
		s.asked(lease)
		require.NoError(s, lease.Err(), "no holder is forced")
		behind.waits()
		s.release(lease)
		s.asked(lease)
		next := behind.got()
		s.notAsked(next)
		s.release(next)
		require.NoError(s, two.Ask(s.ctx(), s.path), "there is no holder to ask")
	}},
	{"AskNamesWhatCannotHear", "who asks would wait for what no process will ever give back", func(s *scene) {
		one := s.client()
		stray := s.Stray(s.T, s.path)
		err := one.Ask(s.ctx(), s.path)
		for err == nil { // a look may be answered by a server that is behind
			require.NoError(s, pause.For(s.ctx(), 5*time.Millisecond))
			err = one.Ask(s.ctx(), s.path)
		}
		require.ErrorContains(s, err, stray.ID)
		s.Delete(s.T, stray)
		s.until(one, 0)
		require.NoError(s, one.Ask(s.ctx(), s.path))
	}},
	{"AskBeforeTheHolderListens", "the question must not be lost", func(s *scene) {
		one, two := s.client(), s.client()
		mu := farsync.NewReentrantMutex(one, s.path)
		first, second := s.take(mu.Lock), s.take(mu.Lock)
		require.NoError(s, two.Ask(s.ctx(), s.path))
		s.asked(second)
		s.asked(first)
		s.release(first)
		s.release(second)
		s.until(two, 0)
	}},
	{"AskReachesAllReaders", "a writer needs all of them to go", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		first, second := s.take(s.rw(one).RLock), s.take(s.rw(two).RLock)
		writer := s.locking(s.rw(three).Lock)
		s.until(one, 3)
		behind := s.locking(s.rw(one).RLock) // shares the first's place, or waits
		s.notAsked(first)
		require.NoError(s, three.Ask(s.ctx(), s.path))
		s.asked(first)
		s.asked(second)
		s.release(first)
		s.release(second)
		s.drain(writer, behind)
	}},
	{"AskReachesAllPermitsAndTheLeader", "a Store asks whatever primitive stands at the path", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		permits := s.path + "-permits"
		first, second := s.take(units(farsync.NewSemaphore(one, permits, 3), 1)), s.take(units(farsync.NewSemaphore(two, permits, 3), 2))
		leader, candidate := s.take(campaign(s.election(one), "one")), s.locking(campaign(s.election(two), "two"))
		s.until(three, 2)
		require.NoError(s, three.Ask(s.ctx(), permits))
		s.asked(first)
		s.asked(second)
		s.notAsked(leader)
		require.NoError(s, three.Ask(s.ctx(), s.path))
		s.asked(leader)
		for i, kind := range []farsync.Kind{farsync.KindPermit, farsync.KindCandidate} {
			list, err := three.Participants(s.ctx(), []string{permits, s.path}[i])
			require.NoError(s, err)
			require.Len(s, list, 2)
			require.Equal(s, []farsync.Kind{kind, kind}, []farsync.Kind{list[0].Kind, list[1].Kind})
		}
		s.release(first)
		s.release(second)
		s.release(leader)
		next := candidate.got()
		s.notAsked(next)
		s.release(next)
		s.until(three, 0)
	}},
	{"AskReachesADowngradedWriter", "its entry may be another by then", func(s *scene) {
		one, two := s.client(), s.client()
		rw := s.rw(one)
		for range 5 {
			lease := s.take(rw.Lock)
			s.notAsked(lease) // it listens
			require.NoError(s, rw.Downgrade(s.ctx(), lease))
			s.notAsked(lease)
			require.NoError(s, two.Ask(s.ctx(), s.path))
			s.asked(lease)
			s.release(lease)
		}
	}},
	{"AskLeavesNothing", "a Store that asks lives for months, and what it leaves with each lock that it ever asked for adds up", func(s *scene) {
		one, two, three := s.client(), s.client(), s.client()
		of := func(name string) *scene {
			other := *s
			other.path += "/" + name
			return &other
		}
		released, given, taken, answered := of("released"), of("given"), of("taken"), of("answered")
		broken, closed, lost := of("broken"), of("closed"), of("lost")
		all := []*scene{released, given, taken, answered, broken, closed, lost}
		for _, at := range all {
			mu := at.mutex(one)
			lease := at.lock(mu)
			require.NoError(s, two.Ask(s.ctx(), at.path))
			require.NoError(s, one.Ask(s.ctx(), at.path), "two ask")
			ctx, cancel := context.WithCancel(s.ctx())
			require.NoError(s, two.Ask(ctx, at.path), "again")
			cancel()
			switch at {
			case released: // it never listens
				at.release(lease)
			case given:
				at.asked(lease)
				at.release(lease)
			case taken: // another client has it at once
				next := at.locking(at.mutex(two).Lock)
				at.until(two, 2)
				at.release(lease)
				lease = next.got()
				require.NoError(s, one.Ask(s.ctx(), at.path))
				at.asked(lease)
				at.release(lease)
			case answered: // the words that are there last are the holder's
				require.ErrorIs(s, two.Break(s.ctx(), at.path, lease.Token()+3, nil), farsync.ErrReleased)
				at.release(lease)
			case broken:
				at.breaks(two, lease.Token())
				at.broken(lease)
			case closed: // the Store that was the last to ask
				require.NoError(s, three.Ask(s.ctx(), at.path))
				require.NoError(s, three.Close())
				at.release(lease)
			case lost:
				s.Expire(s.T, one)
				<-lease.Done()
				require.ErrorIs(s, lease.Release(), farsync.ErrLost)
			}
		}
		for _, at := range all {
			at.until(two, 0)
			if s.Beside != nil {
				require.Eventually(s, func() bool { return len(s.Beside(s.T, at.path)) == 0 }, soon, 10*time.Millisecond, at.path)
			}
		}
	}},
	{"AskedEndsWithTheLease", "a listener must not outlive what it listens for", func(s *scene) {
		one := s.client()
		for range 20 {
			lease := s.lock(s.mutex(one))
			listened := make(chan struct{})
			go func() {
				defer close(listened)
				lease.Asked()
			}()
			s.release(lease)
			<-listened
			s.notAsked(lease)
		}
		lost := s.lock(s.mutex(one))
		s.notAsked(lost)
		s.Expire(s.T, one)
		<-lost.Done()
		require.ErrorIs(s, lost.Release(), farsync.ErrLost)
		s.notAsked(lost)
		require.ErrorIs(s, one.Ask(canceled(), s.path), context.Canceled)
	}},
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
