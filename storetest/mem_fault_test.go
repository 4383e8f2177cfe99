//nolint:forbidigo // time is that of a bubble
package storetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
)

var exclusive = recipe.Request{Queue: "/q", Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule()}

func inBubble(t *testing.T, f func(t *testing.T, m *storetest.Mem)) {
	synctest.Test(t, func(t *testing.T) { f(t, storetest.NewMem()) })
}

func open(t *testing.T, m *storetest.Mem, opts *storetest.MemOptions) *storetest.MemStore {
	s := m.Open(opts)
	t.Cleanup(func() {
		m.Partition(s, false)
		require.NoError(t, s.Close())
	})
	return s
}

func TestMemServiceEndsASessionAfterItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		s := open(t, m, &storetest.MemOptions{TTL: 6 * time.Second})
		e, _, err := s.Join(t.Context(), exclusive)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, e.Session.Err())
		time.Sleep(time.Second) // since the last renewal
		m.Partition(s, true)
		time.Sleep(5*time.Second - recipe.Margin(e.Session.TTL()) - 1)
		require.NoError(t, e.Session.Err())
		time.Sleep(time.Nanosecond)
		require.ErrorIs(t, e.Session.Err(), recipe.ErrLost)
		require.Len(t, m.Entries("/q"), 1)
		time.Sleep(recipe.Margin(e.Session.TTL()))
		synctest.Wait()
		require.Empty(t, m.Entries("/q"))
	})
}

func TestMemDeadlineCountsFromTheSending(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		m.SetLatency(time.Second)
		began := time.Now()
		s := open(t, m, &storetest.MemOptions{TTL: 10 * time.Second})
		require.Equal(t, 2*time.Second, time.Since(began))
		e, _, err := s.Join(t.Context(), exclusive)
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, time.Since(began))
		require.Equal(t, began.Add(9500*time.Millisecond), e.Session.Deadline())
	})
}

func TestMemPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		a, b := open(t, m, nil), open(t, m, nil)
		e, _, err := a.Join(t.Context(), exclusive)
		require.NoError(t, err)
		var waited time.Time
		go func() {
			_ = b.Wait(context.Background(), e)
			waited = time.Now()
		}()
		synctest.Wait()
		m.Partition(b, true)
		require.NoError(t, a.Leave(t.Context(), e))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Entries(ctx, "/q")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, waited.IsZero(), "no event passes")
		m.Partition(b, false)
		synctest.Wait()
		require.Equal(t, time.Now(), waited)
	})
}

func TestMemCloseWhileCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		s := m.Open(nil)
		e, _, err := s.Join(t.Context(), exclusive)
		require.NoError(t, err)
		m.Partition(s, true)
		began := time.Now()
		require.Error(t, s.Close(), "nobody has confirmed it")
		require.LessOrEqual(t, time.Since(began), 10*time.Second/3)
		require.Equal(t, recipe.ErrClosed, e.Session.Err())
		require.Len(t, m.Entries("/q"), 1)
		time.Sleep(10 * time.Second)
		require.Empty(t, m.Entries("/q"))
	})
}

func TestMemStates(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		var mu sync.Mutex
		var states []recipe.State
		s := open(t, m, &storetest.MemOptions{OnState: func(state recipe.State) {
			mu.Lock()
			defer mu.Unlock()
			states = append(states, state)
		}})
		m.Partition(s, true)
		time.Sleep(8 * time.Second)
		m.Partition(s, false)
		time.Sleep(8 * time.Second)
		m.Partition(s, true)
		time.Sleep(20 * time.Second)
		m.Partition(s, false)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []recipe.State{
			recipe.Connected, recipe.Suspended, recipe.Connected, recipe.Suspended, recipe.Lost, recipe.Connected,
		}, states)
	})
}

func TestMemRefusesAShortTTL(t *testing.T) {
	require.Panics(t, func() { storetest.NewMem().Open(&storetest.MemOptions{TTL: time.Millisecond}) })
}

func TestInject(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		failure := errors.New("injected")
		var ops []storetest.Op
		var failAt storetest.Op
		s := storetest.Inject(open(t, m, nil), storetest.InjectorFunc(func(_ context.Context, op storetest.Op) error {
			ops = append(ops, op)
			if op == failAt {
				return failure
			}
			return nil
		}))
		e, _, err := s.Join(t.Context(), exclusive)
		require.NoError(t, err)
		require.Equal(t, []storetest.Op{
			{Kind: storetest.Join, Path: "/q"}, {Kind: storetest.Join, Path: "/q", After: true},
		}, ops)

		failAt = storetest.Op{Kind: storetest.Join, Path: "/q"}
		m.ResetCount()
		_, _, err = s.Join(t.Context(), exclusive)
		require.Equal(t, failure, err)
		require.Zero(t, m.Count())

		failAt.After = true
		_, _, err = s.Join(t.Context(), exclusive)
		require.Equal(t, failure, err)
		synctest.Wait()
		require.Equal(t, e.ID, m.Entries("/q")[0].ID)
		require.Len(t, m.Entries("/q"), 1, "a Join that fails leaves nothing")

		failAt = storetest.Op{Kind: storetest.Leave, Path: "/q", After: true}
		require.Equal(t, failure, s.Leave(t.Context(), e))
		require.Empty(t, m.Entries("/q"))
	})
}

func TestRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, m *storetest.Mem) {
		var record storetest.Record
		a, b := record.Wrap(open(t, m, nil), "a"), record.Wrap(open(t, m, nil), "b")
		first, _, err := a.Join(t.Context(), exclusive)
		require.NoError(t, err)
		second, blockers, err := b.Join(t.Context(), exclusive)
		require.NoError(t, err)
		require.NoError(t, a.Leave(t.Context(), first))
		require.NoError(t, b.Wait(t.Context(), blockers...))
		_, err = b.Blockers(t.Context(), first, exclusive.Rule)
		require.ErrorIs(t, err, recipe.ErrGone)
		require.Equal(t, []storetest.Call{
			{Kind: storetest.Join, Client: "a", Queue: "/q", Entry: first.ID},
			{Kind: storetest.Join, Client: "b", Queue: "/q", Entry: second.ID, On: []string{first.ID}},
			{Kind: storetest.Leave, Client: "a", Queue: "/q", Entry: first.ID},
			{Kind: storetest.Wait, Client: "b", Queue: "/q", On: []string{first.ID}},
			{Kind: storetest.Blockers, Client: "b", Queue: "/q", Entry: first.ID, Err: recipe.ErrGone},
		}, record.Calls())
		require.Equal(t, map[string][]string{second.ID: {first.ID}}, record.Waits())
		require.Equal(t, 2, record.Count(storetest.Join))
		require.Equal(t, 5, record.Count())
		record.Reset()
		require.Empty(t, record.Calls())
	})
}
