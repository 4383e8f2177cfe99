package live

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// waitUnder has the holder of a lease wait for another lock. The caller calls stop.
func (p *play) waitUnder(lease *farsync.Lease, holder, path string) (stop func()) {
	ctx, cancel := lease.Context(p.Context())
	done := make(chan struct{})
	go func() { // joined by stop
		defer close(done)
		_, _ = farsync.NewMutex(p.client(holder), path).Lock(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-done
	}
}

// TestDeadlockNeedsTwoAnswers: the locks of a Store that does not answer are shown again and again, which makes no cycle of theirs older.
func TestDeadlockNeedsTwoAnswers(t *testing.T) {
	bubble(t, nil, func(p *play) {
		a, b := p.lock("a", "/a"), p.lock("b", "/b")
		stopA, stopB := p.waitUnder(a, "a", "/b"), p.waitUnder(b, "b", "/a")
		v := p.viewer()
		require.Empty(p, v.events()[1].Deadlocks)
		p.service.PartitionClient("one", true)
		stopA() // they go on, which the View cannot see
		stopB()
		p.after(time.Minute)
		list := v.events()
		require.NotEmpty(p, list)
		for _, e := range list {
			require.NotEmpty(p, e.Stores[0].Error)
			require.Empty(p, e.Locks, "they are as they were")
			require.Empty(p, e.Deadlocks)
		}
		p.service.PartitionClient("one", false)
		p.after(longest + time.Second)
		list = v.events()
		require.Empty(p, list[len(list)-1].Stores[0].Error)
		require.Empty(p, list[len(list)-1].Deadlocks)
		v.leave()
	})
}

func TestDeadlockStaysWhileItsStoreIsSilent(t *testing.T) {
	bubble(t, nil, func(p *play) {
		a, b := p.lock("a", "/a"), p.lock("b", "/b")
		stopA, stopB := p.waitUnder(a, "a", "/b"), p.waitUnder(b, "b", "/a")
		v := p.viewer()
		p.after(5 * time.Second)
		list := v.events()
		raised := list[len(list)-1].Deadlocks
		require.Len(p, raised, 1)
		p.service.PartitionClient("one", true)
		p.after(time.Minute)
		list = v.events()
		require.NotEmpty(p, list[len(list)-1].Stores[0].Error)
		require.Equal(p, raised, list[len(list)-1].Deadlocks)
		p.service.PartitionClient("one", false)
		stopA()
		stopB()
		p.after(longest + time.Second)
		list = v.events()
		require.Empty(p, list[len(list)-1].Deadlocks)
		v.leave()
	})
}

// TestDeadlockNeedsTwoAnswersOfEachStore: a Store may be shown under two names, with other prefixes.
func TestDeadlockNeedsTwoAnswersOfEachStore(t *testing.T) {
	queue := func(store, path, holder, waiter, under string) lockJSON {
		return lockJSON{Store: store, Path: path, Participants: []participantJSON{
			{ID: holder, Held: true, kind: farsync.KindExclusive, Units: 1}, {ID: waiter, kind: farsync.KindExclusive, Units: 1, Under: []string{under}},
		}}
	}
	locks := []lockJSON{queue("one", "/a", "a1", "a2", "b1"), queue("two", "/b", "b1", "b2", "a1")}
	begin := time.Now()
	a := alarms{}
	for _, step := range []struct {
		one, two time.Duration // when they have answered last
		raised   bool
	}{
		{0, 10 * time.Second, false},
		{0, 12 * time.Second, false},
		{20 * time.Second, 10 * time.Second, false},
		{20 * time.Second, 11 * time.Second, false},
		{22 * time.Second, 22 * time.Second, true},
		{22 * time.Second, 22 * time.Second, true},
	} {
		raised := a.raise(map[string]time.Time{"one": begin.Add(step.one), "two": begin.Add(step.two)}, locks)
		require.Equal(t, step.raised, len(raised) == 1, "%+v", step)
	}
	require.Empty(t, a.raise(nil, nil))
	require.Empty(t, a)
}
