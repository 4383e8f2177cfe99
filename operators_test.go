package farsync_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

// TestOperatorsCallsAreOfEveryPrimitive: whoever looks after a lock knows its path, and not what was made on it.
func TestOperatorsCallsAreOfEveryPrimitive(t *testing.T) {
	for name, row := range map[string]struct {
		kind farsync.Kind
		lock func(context.Context, *farsync.Store) (*farsync.Lease, error)
	}{
		"a mutex": {farsync.KindExclusive, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewMutex(s, "/a").Lock(ctx)
		}},
		"a reentrant mutex": {farsync.KindExclusive, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewReentrantMutex(s, "/a").Lock(ctx)
		}},
		"a writer": {farsync.KindWrite, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewRWMutex(s, "/a").Lock(ctx)
		}},
		"a reader": {farsync.KindRead, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewRWMutex(s, "/a").RLock(ctx)
		}},
		"a semaphore": {farsync.KindPermit, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewSemaphore(s, "/a", 3).Acquire(ctx, 2)
		}},
		"an election": {farsync.KindCandidate, func(ctx context.Context, s *farsync.Store) (*farsync.Lease, error) {
			return farsync.NewElection(s, "/a").Campaign(ctx, "")
		}},
	} {
		bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
			ctx := t.Context()
			require.Nil(t, must2(two.Participants(ctx, "/a"))(t), name)
			require.NoError(t, two.Ask(ctx, "/a"), "%s: there is nobody to ask", name)
			lease, err := row.lock(ctx, one)
			require.NoError(t, err, name)
			list := must2(two.Participants(ctx, "/a"))(t)
			require.Len(t, list, 1, name)
			require.Equal(t, row.kind, list[0].Kind, name)
			require.True(t, list[0].Held && list[0].ID == lease.ID() && list[0].Token == lease.Token(), name)
			for lock, err := range two.Survey(ctx, "/") {
				require.NoError(t, err, name)
				require.Equal(t, "/a", lock.Path, name)
				require.Len(t, lock.Participants, 1, name)
				require.Equal(t, lease.ID(), lock.Participants[0].ID, name)
				require.Equal(t, row.kind, lock.Participants[0].Kind, name)
			}

			asked := lease.Asked()
			require.NoError(t, two.Ask(ctx, "/a"), name)
			<-asked
			require.NoError(t, lease.Err(), "%s: it is only a request", name)

			// No lease has these tokens. A variable that was never set is the first.
			for _, token := range []farsync.Token{0, -1, -lease.Token()} {
				for _, remove := range []bool{false, true} {
					err := two.Break(ctx, "/a", token, &farsync.BreakOptions{Remove: remove})
					require.ErrorIs(t, err, farsync.ErrReleased, "%s: token %d", name, token)
				}
			}
			require.NoError(t, lease.Err(), name)
			require.NoError(t, two.Break(ctx, "/a", lease.Token(), nil), name)
			require.ErrorIs(t, lease.Err(), farsync.ErrBroken, name)
			require.ErrorIs(t, two.Break(ctx, "/a", lease.Token(), nil), farsync.ErrReleased, name)
			require.Nil(t, must2(one.Participants(ctx, "/a"))(t), name)
		})
	}
}

// TestOperatorsCallsOfAClosedStore fail at once, and ask nobody.
func TestOperatorsCallsOfAClosedStore(t *testing.T) {
	bubble(t, func(t *testing.T, service *farsynctest.Mem, one, two *farsync.Store) {
		lease := lock(t, farsync.NewMutex(two, "/a"))
		asked := lease.Asked()
		synctest.Wait() // or the requests of Asked would be counted as the calls'
		require.NoError(t, one.Close())
		service.ResetCount()
		began := time.Now()
		list, err := one.Participants(t.Context(), "/a")
		require.ErrorIs(t, err, farsync.ErrClosed)
		require.Nil(t, list)
		require.ErrorIs(t, one.Ask(t.Context(), "/a"), farsync.ErrClosed)
		require.ErrorIs(t, one.Break(t.Context(), "/a", lease.Token(), nil), farsync.ErrClosed)
		for _, err = range one.Survey(t.Context(), "/") {
			require.ErrorIs(t, err, farsync.ErrClosed)
		}
		require.ErrorIs(t, err, farsync.ErrClosed)
		require.Equal(t, began, time.Now())
		require.Zero(t, service.Count())
		synctest.Wait()
		select {
		case <-asked:
			t.Error("it was asked")
		default:
		}
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release())
	})
}

// TestMembersOfAMultiMutexArePaths of their own.
func TestMembersOfAMultiMutexArePaths(t *testing.T) {
	bubble(t, func(t *testing.T, _ *farsynctest.Mem, one, two *farsync.Store) {
		lease, err := farsync.NewMultiMutex(farsync.NewMutex(one, "/b"), farsync.NewMutex(one, "/a")).Lock(t.Context())
		require.NoError(t, err)
		asked := lease.Asked()
		for i, path := range []string{"/b", "/a"} {
			list := must2(two.Participants(t.Context(), path))(t)
			require.Len(t, list, 1)
			require.Equal(t, lease.Tokens()[i], list[0].Token)
		}
		require.NoError(t, two.Ask(t.Context(), "/a"))
		<-asked
		require.NoError(t, two.Break(t.Context(), "/b", lease.Tokens()[0], nil))
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), farsync.ErrBroken)
		_ = lease.Release()
	})
}

// A strange service shows entries with revisions that no token has, as another program may have written them.
type strange struct {
	driver.Service

	revision int64
}

func (s strange) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	session, err := s.Service.Open(ctx, ttl)
	return strangeSession{session, s.revision}, err
}

type strangeSession struct {
	driver.Session

	revision int64
}

func (s strangeSession) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	v, err := s.Session.List(ctx, queue, limit)
	v.Entries = slices.Clone(v.Entries)
	for i := range v.Entries {
		v.Entries[i].Revision = s.revision
	}
	return v, err
}

// TestNoTokenNamesAnEntryWithoutOne: Participants shows the zero Token for it. A Break with that must not remove the
// first entry of this kind, which may be anybody's.
func TestNoTokenNamesAnEntryWithoutOne(t *testing.T) {
	for _, revision := range []int64{0, -1, 1 << 56} {
		bubble(t, func(t *testing.T, service *farsynctest.Mem, one, _ *farsync.Store) {
			lease := lock(t, farsync.NewMutex(one, "/a"))
			odd, err := farsync.Open(t.Context(), strange{service.Service("strange"), revision}, nil)
			require.NoError(t, err)
			list := must2(odd.Participants(t.Context(), "/a"))(t)
			require.Len(t, list, 1)
			require.Zero(t, list[0].Token)
			for _, token := range []farsync.Token{0, -256, -1} {
				err := odd.Break(t.Context(), "/a", token, &farsync.BreakOptions{Remove: true})
				require.ErrorIs(t, err, farsync.ErrReleased, "token %d", token)
			}
			require.Len(t, service.Entries("/a"), 1)
			require.NoError(t, odd.Close())
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release())
		})
	}
}
