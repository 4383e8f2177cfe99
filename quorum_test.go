//nolint:forbidigo // time is that of a bubble
package farsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/internal/locktest"
)

const (
	quorumPath = "/q"
	quorumTTL  = 10 * time.Second
)

var errForbidden = errors.New("permission denied")

// A council is services that fail independently, in a bubble.
type council struct {
	*testing.T
	members []*farsynctest.Mem
	opened  []*farsync.Store
}

// inCouncil runs f with n services. When f has returned and the clients are closed, nothing may be left.
func inCouncil(t *testing.T, n int, f func(c *council)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &council{T: t}
		for range n {
			c.members = append(c.members, farsynctest.NewMem())
		}
		defer func() {
			for _, store := range c.opened {
				_ = store.Close()
			}
			time.Sleep(3 * quorumTTL) // for sessions whose client could not end them
			for i, m := range c.members {
				entries, sessions, watches := m.Left()
				require.Zero(t, entries+sessions+watches, "left at member %d", i)
			}
		}()
		f(c)
	})
}

// A client is one process: its Stores, in the order of their names, and a QuorumMutex on them.
type client struct {
	*farsync.QuorumMutex
	name   string
	stores []*farsync.Store
}

func (c *council) client(name string, traces ...*farsync.Trace) *client {
	cl := &client{name: name}
	var members []*farsync.Mutex
	for i, m := range c.members {
		store, err := farsync.Open(c.Context(), m.Service(name), &farsync.Options{
			Name: fmt.Sprint("member-", i), Holder: name, TTL: quorumTTL, Lazy: true, Trace: farsync.JoinTraces(traces...),
		})
		require.NoError(c, err)
		cl.stores = append(cl.stores, store)
		members = append(members, farsync.NewMutex(store, quorumPath))
	}
	c.opened = append(c.opened, cl.stores...)
	cl.QuorumMutex = farsync.NewQuorumMutex(members...)
	return cl
}

// cut cuts the client off from some members, or heals that.
func (c *council) cut(name string, cut bool, members ...int) {
	for _, i := range members {
		c.members[i].PartitionClient(name, cut)
	}
}

// held returns at which members a client has an entry.
func (c *council) held(name string) (at []int) {
	for i, m := range c.members {
		for _, e := range m.Entries(quorumPath) {
			if string(e.Value) == name {
				at = append(at, i)
			}
		}
	}
	return at
}

func (c *council) requests() (n int) {
	for _, m := range c.members {
		n += m.Count(farsynctest.Create, farsynctest.Ahead, farsynctest.List, farsynctest.Delete, farsynctest.Watch, farsynctest.Find)
	}
	return n
}

func (c *council) resetCount() {
	for _, m := range c.members {
		m.ResetCount()
	}
}

// A pursuit is a Lock under way.
type pursuit struct {
	lease  *farsync.MultiLease
	err    error
	at     time.Time
	done   chan struct{}
	cancel context.CancelFunc
}

// pursue begins to Lock, and returns once that has got as far as it gets at this moment.
func (c *council) pursue(cl *client) *pursuit {
	ctx, cancel := context.WithCancel(c.Context())
	p := &pursuit{done: make(chan struct{}), cancel: cancel}
	go func() { // ends with ctx at the latest
		defer cancel()
		p.lease, p.err = cl.Lock(ctx)
		p.at = time.Now()
		close(p.done)
	}()
	synctest.Wait()
	return p
}

func (p *pursuit) waiting() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// soon requires that the lock is held within d.
func (c *council) soon(p *pursuit, d time.Duration) *farsync.MultiLease {
	c.Helper()
	began := time.Now()
	<-p.done
	require.NoError(c, p.err)
	require.LessOrEqual(c, p.at.Sub(began), d)
	require.NoError(c, p.lease.Err())
	return p.lease
}

func (c *council) lock(cl *client) *farsync.MultiLease {
	c.Helper()
	lease, err := cl.Lock(c.Context())
	require.NoError(c, err)
	require.NoError(c, lease.Err())
	return lease
}

// by returns the members by which a lease was won.
func by(lease *farsync.MultiLease) (members []int) {
	for i, token := range lease.Tokens() {
		if token != 0 {
			members = append(members, i)
		}
	}
	return members
}

func TestQuorumMutexMistakesPanic(t *testing.T) {
	service := farsynctest.NewMem()
	open := func(name string) *farsync.Store {
		store := service.Open(&farsynctest.MemOptions{Options: farsync.Options{Name: name}})
		t.Cleanup(func() { _ = store.Close() })
		return store
	}
	nameless, a, alsoA, b, c := open(""), open("a"), open("a"), open("b"), open("c")
	mu := farsync.NewMutex
	quorum := farsync.NewQuorumMutex
	one := mu(a, "/x")
	for _, row := range []struct {
		why     string
		members []*farsync.Mutex
	}{
		{"no members", nil},
		{"nil member", []*farsync.Mutex{one, nil, mu(b, "/x")}},
		{"two members on one store", []*farsync.Mutex{one, mu(b, "/x"), one}},
		{"two members on one store", []*farsync.Mutex{one, mu(b, "/x"), mu(a, "/x")}},
		{"two members on one store", []*farsync.Mutex{mu(nameless, "/x"), mu(nameless, "/x")}},
		{"several stores, and one without a name", []*farsync.Mutex{one, mu(nameless, "/x"), mu(b, "/x")}},
		{`two stores have the name "a"`, []*farsync.Mutex{one, mu(alsoA, "/x"), mu(b, "/x")}},
		{"members on the paths /x and /y", []*farsync.Mutex{one, mu(b, "/x"), mu(c, "/y")}},
	} {
		require.PanicsWithValue(t, "farsync: NewQuorumMutex: "+row.why, func() { quorum(row.members...) })
	}
	for _, members := range [][]*farsync.Mutex{
		{mu(nameless, "/x")}, {one}, {one, mu(b, "/x")}, {one, mu(b, "/x"), mu(c, "/x")},
	} {
		require.NotPanics(t, func() { quorum(members...) })
	}
	_, err := quorum(mu(a, "x"), mu(b, "x")).Lock(t.Context())
	require.ErrorIs(t, err, farsync.ErrPath)
}

// A free lock costs a majority of members and not more, whatever the order of the arguments, and TryLock one round trip.
func TestQuorumMutexFree(t *testing.T) {
	for n := 1; n <= 7; n++ {
		inCouncil(t, n, func(c *council) {
			need := n/2 + 1
			cl := c.client("a")
			var members []*farsync.Mutex
			for i := range cl.stores {
				members = append(members, farsync.NewMutex(cl.stores[n-1-i], quorumPath))
			}
			cl.QuorumMutex = farsync.NewQuorumMutex(members...)
			c.resetCount()
			lease := c.lock(cl)
			require.Equal(c, need, c.requests())
			for i, token := range lease.Tokens() {
				list := c.members[n-1-i].Entries(quorumPath)
				if n-1-i >= need {
					require.Zero(c, token)
					require.Empty(c, list)
				} else {
					require.Equal(c, list[0].Revision, token.Revision())
				}
			}
			require.Len(c, locktest.GuardEntries(c, lease), need)
			require.NoError(c, lease.Release())
			require.Equal(c, 2*need, c.requests())
			require.ErrorIs(c, lease.Err(), farsync.ErrReleased)
			require.ErrorIs(c, lease.Release(), farsync.ErrReleased)
			_, err := lease.GuardEntries()
			require.ErrorIs(c, err, farsync.ErrReleased)
			<-lease.Done()

			for _, m := range c.members {
				m.SetLatency(100 * time.Millisecond)
			}
			began := time.Now()
			lease = c.lock(cl)
			require.Equal(c, time.Duration(need)*200*time.Millisecond, time.Since(began))
			began = time.Now()
			require.NoError(c, lease.Release())
			require.Equal(c, 200*time.Millisecond, time.Since(began))
			began = time.Now()
			lease, err = cl.TryLock(c.Context())
			require.NoError(c, err)
			require.Equal(c, 400*time.Millisecond, time.Since(began), "a look and a join, at all at once")
			require.Len(c, by(lease), n)
			require.NoError(c, lease.Release())
			for _, m := range c.members {
				m.SetLatency(0)
			}
		})
	}
}

// First come, first served, over clients and within each.
func TestQuorumMutexIsFair(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		var pursuits []*pursuit
		for i := range 8 {
			pursuits = append(pursuits, c.pursue(c.client(fmt.Sprint("client-", i))))
		}
		var last farsync.Token
		for i, p := range pursuits {
			lease := c.soon(p, 0)
			require.Equal(c, []int{0, 1, 2}, by(lease))
			require.Greater(c, lease.Tokens()[0], last)
			last = lease.Tokens()[0]
			for _, later := range pursuits[i+1:] {
				require.True(c, later.waiting())
			}
			time.Sleep(time.Millisecond)
			require.NoError(c, lease.Release())
			synctest.Wait()
		}
	})
}

func TestQuorumMutexTry(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		held := c.lock(a) // by three
		_, err := b.TryLock(c.Context())
		require.ErrorIs(c, err, farsync.ErrLocked)
		require.EqualError(c, err, "farsync: try lock /q: no majority of 5 members: member-0, member-1, member-2, locked: held by \"a\"")
		of, _ := errors.AsType[*farsync.Error](err)
		require.Equal(c, "a", of.Holder)
		time.Sleep(time.Second)
		require.Equal(c, []int(nil), c.held("b"))

		// Two members are all that may be silent, as long as the others answer.
		c.cut("b", true, 3, 4)
		_, err = b.TryLock(c.Context())
		require.ErrorIs(c, err, farsync.ErrLocked)
		require.NoError(c, held.Release())
		lease, err := b.TryLock(c.Context())
		require.NoError(c, err)
		require.Equal(c, []int{0, 1, 2}, by(lease))
		require.NoError(c, lease.Release())

		// With three it waits for an answer.
		c.cut("b", true, 0)
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		_, err = b.TryLock(ctx)
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.ErrorIs(c, err, farsync.ErrUnavailable)
		time.Sleep(time.Second)
		require.Empty(c, c.held("b"))
		c.cut("b", false, 0, 3, 4)
	})
}

// A member that grants nothing after a restart is not taken: a TryLock has the others, or says at once that the
// services are in the way. Only if those that are taken leave no majority is the lock said to be taken.
func TestQuorumTryLockBesideASilence(t *testing.T) {
	for _, row := range []struct {
		silent, taken int
		unavailable   bool
		locked        bool
	}{
		{silent: 1},
		{silent: 2, unavailable: true},
		{silent: 3, unavailable: true},
		{silent: 1, taken: 1, unavailable: true},
		{taken: 1},
		{taken: 2, locked: true},
	} {
		t.Run(fmt.Sprintf("%d silent, %d taken", row.silent, row.taken), func(t *testing.T) {
			inCouncil(t, 3, func(c *council) {
				for _, m := range c.members[:row.silent] {
					m.Restart(time.Hour)
				}
				a, b := c.client("a"), c.client("b")
				for i := range row.taken {
					defer func(l *farsync.Lease) { require.NoError(c, l.Release()) }(
						lock(c.T, farsync.NewMutex(b.stores[2-i], quorumPath)))
				}
				c.resetCount()
				began := time.Now()
				lease, err := a.TryLock(c.Context())
				require.Zero(c, time.Since(began))
				require.LessOrEqual(c, c.requests(), 2*len(c.members), "it asks once")
				if !row.unavailable && !row.locked {
					require.NoError(c, err)
					require.NoError(c, lease.Release())
					return
				}
				require.Equal(c, row.unavailable, errors.Is(err, farsync.ErrUnavailable), err)
				require.Equal(c, row.locked, errors.Is(err, farsync.ErrLocked), err)
				if row.unavailable {
					require.ErrorContains(c, err, "nothing is granted for 1h0m0s more")
				}
			})
		})
	}
}

// Two that try at the same time may each get a few, but not both a majority.
func TestQuorumMutexTriesExclude(t *testing.T) {
	for range 20 {
		inCouncil(t, 5, func(c *council) {
			var clients []*client
			for i := range 6 {
				clients = append(clients, c.client(fmt.Sprint("client-", i)))
			}
			leases := make(chan *farsync.MultiLease, len(clients))
			for _, cl := range clients {
				go func() {
					lease, err := cl.TryLock(c.Context())
					if err != nil && !errors.Is(err, farsync.ErrLocked) {
						c.Error(err)
					}
					leases <- lease
				}()
			}
			held := 0
			for range clients {
				if lease := <-leases; lease != nil && lease.Err() == nil {
					held++
					defer func() { require.NoError(c, lease.Release()) }()
				}
			}
			require.LessOrEqual(c, held, 1)
		})
	}
}

// Members that do not answer are passed over: after a tenth of the TTL, and at once when their Store knows.
func TestQuorumMutexPassesOverSilentMembers(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a := c.client("a")
		c.cut("a", true, 0, 2)
		began := time.Now()
		lease := c.lock(a)
		require.Equal(c, []int{1, 3, 4}, by(lease))
		require.Equal(c, 2*quorumTTL/10, time.Since(began))
		require.NoError(c, lease.Release())
		time.Sleep(quorumTTL)
		began = time.Now()
		lease = c.lock(a)
		require.Equal(c, []int{1, 3, 4}, by(lease))
		require.Zero(c, time.Since(began))
		require.NoError(c, lease.Release())

		// A member that is silent while it is waited for.
		b := c.client("b")
		held := c.lock(b)
		require.Equal(c, []int{0, 1, 2}, by(held))
		p := c.pursue(a) // behind b, at the second
		require.True(c, p.waiting())
		c.cut("a", false, 0, 2)
		time.Sleep(quorumTTL)
		require.True(c, p.waiting())
		c.cut("a", true, 1)
		require.NoError(c, held.Release())
		lease = c.soon(p, quorumTTL/2)
		require.Equal(c, []int{2, 3, 4}, by(lease))
		require.NoError(c, lease.Release())
		c.cut("a", false, 1)
	})
}

// TestQuorumMutexIsPassedOverOnceForACrowd: the callers of one Store stand in one line at a member. What one of them has waited for,
// a tenth of the TTL, all have.
func TestQuorumMutexIsPassedOverOnceForACrowd(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a := c.client("a")
		c.members[0].SetFault(func(op farsynctest.Op) farsynctest.Fault {
			if op.Kind == farsynctest.Create {
				return farsynctest.Silence(false) // renewals are answered
			}
			return farsynctest.None
		})
		began := time.Now()
		var all errgroup.Group
		for range 30 {
			all.Go(func() error {
				lease, err := a.Lock(c.Context())
				if err != nil {
					return err
				}
				return lease.Release()
			})
		}
		require.NoError(c, all.Wait())
		require.Equal(c, quorumTTL/10, time.Since(began))
		c.members[0].SetFault(nil)
		time.Sleep(quorumTTL)
	})
}

// A process that starts while members are gone knows them all the same.
func TestQuorumMutexOfLateStores(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		c.cut("a", true, 0, 1)
		a := c.client("a")
		began := time.Now()
		lease := c.lock(a)
		require.Zero(c, time.Since(began))
		require.Equal(c, []int{2, 3, 4}, by(lease))
		c.cut("a", false, 0, 1)
		time.Sleep(quorumTTL)
		require.Equal(c, []int{0, 1, 2, 3, 4}, c.held("a"))
		require.NoError(c, lease.Release())
	})
}

// Too few members answer: Lock waits for them until ctx is done, and says so.
func TestQuorumMutexWithoutAMajority(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		c.cut("a", true, 0, 2, 4)
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := a.Lock(ctx)
		require.Equal(c, time.Minute, time.Since(began))
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.ErrorIs(c, err, farsync.ErrUnavailable)
		require.ErrorContains(c, err, "no majority of 5 members")

		// What it holds for a moment keeps none of the others waiting for long.
		p := c.pursue(a)
		require.NoError(c, c.soon(c.pursue(b), quorumTTL/2).Release())
		require.True(c, p.waiting())
		c.cut("a", false, 4)
		require.NoError(c, c.soon(p, quorumTTL).Release())
		c.cut("a", false, 0, 2)

		// The caller gave up because of a holder, not because of the services.
		time.Sleep(quorumTTL)
		held := c.lock(b)
		ctx, cancel = context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		_, err = a.Lock(ctx)
		require.ErrorIs(c, err, context.DeadlineExceeded)
		require.NotErrorIs(c, err, farsync.ErrUnavailable)
		require.ErrorContains(c, err, `"b"`, "the error names the holder")
		require.NoError(c, held.Release())
	})
}

// What the members say counts once no majority is left without those that refuse.
func TestQuorumMutexRefused(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a := c.client("a")
		for i, m := range c.members {
			m.SetFault(func(op farsynctest.Op) farsynctest.Fault {
				if op.Kind == farsynctest.Create {
					return farsynctest.Refuse(errForbidden)
				}
				return farsynctest.None
			})
			if i == 0 {
				lease := c.lock(a)
				require.Equal(c, []int{1, 2}, by(lease))
				require.NoError(c, lease.Release())
			}
			if i == 1 {
				began := time.Now()
				_, err := a.Lock(c.Context())
				require.Zero(c, time.Since(began))
				require.ErrorIs(c, err, errForbidden)
				require.NotErrorIs(c, err, farsync.ErrUnavailable)
				require.EqualError(c, err, "farsync: lock /q: no majority of 3 members: member-0, member-1, create: permission denied")
				_, err = a.TryLock(c.Context())
				require.ErrorIs(c, err, errForbidden)
				break
			}
		}
		c.members[0].SetFault(nil)
		c.members[1].SetFault(nil)
		other, err := farsync.NewElection(a.stores[0], quorumPath).Campaign(c.Context(), "")
		require.NoError(c, err)
		lease := c.lock(a)
		require.Equal(c, []int{1, 2}, by(lease), "another family has the first")
		require.NoError(c, lease.Release())
		require.NoError(c, other.Release())
		require.NoError(c, a.stores[2].Close())
		require.NoError(c, c.lock(a).Release())
		require.NoError(c, a.stores[1].Close())
		_, err = a.Lock(c.Context())
		require.ErrorIs(c, err, farsync.ErrClosed)
		_, err = a.TryLock(c.Context())
		require.ErrorIs(c, err, farsync.ErrClosed)
	})
}

// A lease takes the rest of the members once it has been held for a while. Then any two may be lost.
func TestQuorumLeaseOutlivesAMinority(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		lease := c.lock(a)
		require.Equal(c, []int{0, 1, 2}, c.held("a"))
		tokens := lease.Tokens()
		time.Sleep(quorumTTL / 8)
		require.Equal(c, []int{0, 1, 2, 3, 4}, c.held("a"))
		require.Equal(c, tokens, lease.Tokens(), "they are those by which the lease was won")
		waiting := c.pursue(b)

		// Two are restarted without what they knew. They are taken again when they grant again.
		for _, i := range []int{0, 1} {
			c.members[i].Restart(quorumTTL)
		}
		time.Sleep(quorumTTL / 2)
		require.NoError(c, lease.Err())
		require.True(c, waiting.waiting())
		time.Sleep(quorumTTL)
		require.NoError(c, lease.Err())
		require.True(c, waiting.waiting())

		// The other client has come first at one of them, so two of those left may not be lost.
		first := c.members[0].Entries(quorumPath)
		require.NotEmpty(c, first)
		require.NoError(c, lease.Release())
		require.NoError(c, c.soon(waiting, quorumTTL).Release())
	})
}

// The lease ends, to the moment, when the majority can no longer be proved.
func TestQuorumLeaseEndsWithItsMajority(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		lease := c.lock(a)
		time.Sleep(quorumTTL / 8)
		require.Len(c, c.held("a"), 5)
		waiting := c.pursue(b)
		c.cut("a", true, 0)
		time.Sleep(quorumTTL)
		require.NoError(c, lease.Err())
		require.Greater(c, time.Until(lease.Deadline()), quorumTTL/2, "it is renewed by the others")
		require.True(c, waiting.waiting())
		c.cut("a", true, 1)
		time.Sleep(quorumTTL)
		require.NoError(c, lease.Err())
		c.cut("a", true, 2)
		deadline := lease.Deadline()
		<-lease.Done()
		require.Zero(c, time.Until(deadline))
		require.ErrorIs(c, lease.Err(), farsync.ErrLost)
		require.ErrorContains(c, lease.Err(), "no majority of 5 members: member-0")
		require.ErrorIs(c, lease.Release(), farsync.ErrLost)
		next := c.soon(waiting, quorumTTL)
		require.NoError(c, next.Release())
		c.cut("a", false, 0, 1, 2)
	})
}

// What is left of a lost lease is given back by itself: others need not wait for a Release.
func TestLostQuorumLeaseLeavesNothing(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a, b := c.client("a"), c.client("b")
		lease := c.lock(a)
		c.members[1].ExpireClient("a")
		time.Sleep(quorumTTL)
		require.NoError(c, lease.Err(), "taken again before it was missed, or another in its place")
		for i := range 2 {
			c.members[i].Restart(quorumTTL)
		}
		<-lease.Done()
		synctest.Wait()
		require.Empty(c, c.held("a"))
		require.NoError(c, c.soon(c.pursue(b), 2*quorumTTL).Release())
		require.ErrorIs(c, lease.Release(), farsync.ErrLost)
	})
}

// A majority was held until the end, beside a member that was not, and the service has not said so: that is no loss of the lease.
// To Do it is no error.
func TestUnconfirmedReleaseOfAQuorumIsNoLoss(t *testing.T) {
	for _, do := range []bool{false, true} {
		inCouncil(t, 3, func(c *council) {
			a := c.client("a")
			for _, m := range c.members {
				m.SetLatency(100 * time.Millisecond)
			}
			lease, err := a.TryLock(c.Context())
			require.NoError(c, err)
			require.Len(c, by(lease), 3, "all have as much time as the fastest")
			end := func(context.Context, *farsync.MultiLease) error {
				c.members[0].ExpireClient("a")
				c.cut("a", true, 1, 2)
				return nil
			}
			if do {
				require.NoError(c, lease.Do(c.Context(), end))
			} else {
				require.NoError(c, end(c.Context(), lease))
				err := lease.Release()
				require.ErrorIs(c, err, farsync.ErrUnavailable)
				require.NotErrorIs(c, err, farsync.ErrLost)
			}
			c.cut("a", false, 1, 2)
		})
	}
}

// Another client has a member that was lost, and waits for the next. The lease waits behind it there, and takes the other
// members that it loses all the same. Neither waits for the other.
func TestQuorumLeaseTakesMembersApart(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		lease := c.lock(a)
		time.Sleep(quorumTTL / 8)
		waiting := c.pursue(b)
		expire := func(i int) {
			c.members[i].ExpireClient("a")
			time.Sleep(quorumTTL) // a renewal tells the client
		}
		expire(0)
		require.Equal(c, []int{0, 1}, c.held("b"), "it holds the first, and waits for the second")
		require.Equal(c, []int{0, 1, 2, 3, 4}, c.held("a"), "it waits for the first, and holds the others")
		expire(4)
		require.Equal(c, []int{0, 1, 2, 3, 4}, c.held("a"))
		expire(3)
		expire(4)
		require.NoError(c, lease.Err())
		require.True(c, waiting.waiting())
		expire(2)
		require.NoError(c, lease.Err())

		// Without the first and the second there are three left, one of which is lost.
		c.members[1].ExpireClient("a")
		c.members[2].Restart(quorumTTL)
		<-lease.Done()
		require.ErrorIs(c, lease.Err(), farsync.ErrLost)
		next := c.soon(waiting, quorumTTL)
		require.NotContains(c, by(next), 2)
		require.ErrorIs(c, lease.Release(), farsync.ErrLost)
		require.NoError(c, next.Release())
	})
}

// Members may be lost while the later ones are waited for.
func TestQuorumMutexLosesMembersOnTheWay(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		mine := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		p := c.pursue(a)
		require.Equal(c, []int{0, 1, 2}, c.held("a"))
		c.members[0].ExpireClient("a")
		time.Sleep(quorumTTL)
		require.True(c, p.waiting())
		require.Equal(c, []int{1, 2}, c.held("a"))
		require.NoError(c, mine.Release())
		lease := c.soon(p, 0)
		require.Equal(c, []int{1, 2, 3}, by(lease), "the first was seen to be lost")
		require.NoError(c, lease.Release())
	})
	inCouncil(t, 3, func(c *council) {
		a, b := c.client("a"), c.client("b")
		second, third := lock(c.T, farsync.NewMutex(b.stores[1], quorumPath)), lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		c.cut("a", true, 0)
		p := c.pursue(a)
		time.Sleep(quorumTTL)
		c.cut("a", false, 0)
		require.NoError(c, second.Release())
		time.Sleep(time.Second)
		require.Equal(c, []int{1, 2}, c.held("a"))
		c.members[1].ExpireClient("a")
		time.Sleep(quorumTTL)
		require.Contains(c, c.held("a"), 0, "two are needed, and only the third was left: it has begun again")
		require.NoError(c, third.Release())
		lease := c.soon(p, 0)
		require.Contains(c, by(lease), 0)
		require.NoError(c, lease.Release())
	})
}

// The last member is won in the moment in which an earlier one ends.
func TestQuorumMutexLosesAMemberAsItWins(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a, b := c.client("a"), c.client("b")
		held := lock(c.T, farsync.NewMutex(b.stores[1], quorumPath))
		c.cut("a", true, 2) // so that no other can take its place
		p := c.pursue(a)
		c.cut("a", true, 0)
		// The deadline of the first: what it proved last was its opening.
		time.Sleep(quorumTTL - quorumTTL/20)
		require.NoError(c, held.Release())
		synctest.Wait()
		require.True(c, p.waiting())
		c.cut("a", false, 0, 2)
		require.NoError(c, c.soon(p, quorumTTL).Release())
	})
}

// A member is taken in the very moment in which another ends: for that moment there was no majority.
func TestQuorumLeaseDoesNotOutliveAGap(t *testing.T) {
	for range 50 {
		inCouncil(t, 3, func(c *council) {
			a, b := c.client("a"), c.client("b")
			stranger := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
			lease := c.lock(a)
			c.cut("a", true, 0)
			time.Sleep(quorumTTL / 2)
			require.Equal(c, []int{0, 1, 2}, c.held("a"), "it waits for the third")
			time.Sleep(time.Until(lease.Deadline()))
			require.NoError(c, stranger.Release())
			synctest.Wait()
			require.ErrorIs(c, lease.Err(), farsync.ErrLost)
			require.Empty(c, c.held("a")[1:])
			c.cut("a", false, 0)
			require.ErrorIs(c, lease.Release(), farsync.ErrLost)
		})
	}
}

// A process is stopped for so long that the lease is over, and then its goroutines and timers run in any order.
func TestQuorumLeaseThatEndsWhileStoppedIsLost(t *testing.T) {
	for range 50 {
		inCouncil(t, 3, func(c *council) {
			a := c.client("a")
			c.cut("a", true, 0)
			lease := c.lock(a)
			begin := lease.Stalled()
			c.cut("a", true, 1, 2)
			time.Sleep(time.Until(lease.Deadline()))
			begin()
			require.LessOrEqual(c, time.Until(lease.Deadline()), time.Duration(0))
			require.ErrorIs(c, lease.Err(), farsync.ErrLost)
			require.ErrorIs(c, lease.Release(), farsync.ErrLost)
			c.cut("a", false, 0, 1, 2)
		})
	}
}

func TestQuorumLeaseRelease(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		held := func() *farsync.MultiLease {
			lease := c.lock(a)
			time.Sleep(quorumTTL / 8)
			require.Len(c, c.held("a"), 5)
			return lease
		}
		// A minority does not confirm it.
		lease := held()
		c.cut("a", true, 0, 1)
		began := time.Now()
		require.NoError(c, lease.Release())
		require.LessOrEqual(c, time.Since(began), quorumTTL/3)
		require.NoError(c, c.soon(c.pursue(b), 2*quorumTTL).Release(), "it waits for the first, which is held until its session ends")
		c.cut("a", false, 0, 1)
		time.Sleep(quorumTTL)

		// Its Stores know: it is not waited for.
		lease = held()
		c.cut("a", true, 0, 1)
		time.Sleep(quorumTTL / 2)
		began = time.Now()
		require.NoError(c, lease.Release())
		require.Zero(c, time.Since(began))
		c.cut("a", false, 0, 1)
		time.Sleep(quorumTTL)

		// A majority does not.
		lease = held()
		c.cut("a", true, 0, 1, 2)
		require.ErrorIs(c, lease.Release(), farsync.ErrUnavailable)
		require.ErrorIs(c, lease.Err(), farsync.ErrReleased)
		c.cut("a", false, 0, 1, 2)
		time.Sleep(2 * quorumTTL)
		require.Empty(c, c.held("a"))

		// A person has removed a majority of the entries, which is noticed by the release.
		lease = c.lock(a)
		for _, i := range []int{0, 2} {
			require.True(c, c.members[i].Delete(c.members[i].Entries(quorumPath)[0].ID))
		}
		require.ErrorIs(c, lease.Release(), farsync.ErrLost)

		// Stores are closed one after the other.
		lease = held()
		require.NoError(c, a.stores[1].Close())
		require.NoError(c, a.stores[2].Close())
		require.NoError(c, lease.Err())
		require.NoError(c, a.stores[0].Close())
		require.ErrorIs(c, lease.Err(), farsync.ErrClosed)
		require.NotErrorIs(c, lease.Err(), farsync.ErrLost)
		require.ErrorIs(c, lease.Release(), farsync.ErrClosed)
	})
}

// A member that was still being taken has not confirmed anything.
func TestQuorumReleaseCountsWhatWasBeingTaken(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a, b := c.client("a"), c.client("b")
		stranger := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		lease := c.lock(a)
		time.Sleep(quorumTTL / 8)
		require.Len(c, c.members[2].Entries(quorumPath), 2)
		c.cut("a", true, 1, 2)
		require.NoError(c, stranger.Release())
		require.ErrorIs(c, lease.Release(), farsync.ErrUnavailable, "one of three is free")
		c.cut("a", false, 1, 2)
		require.NoError(c, c.soon(c.pursue(b), quorumTTL).Release())
	})
}

// Whoever is told that a member was given back may ask the lease.
func TestTraceMayAskTheLease(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		var lease atomic.Pointer[farsync.MultiLease]
		var asked atomic.Int32
		a := c.client("a", &farsync.Trace{Ended: func(farsync.TraceEnd) {
			if l := lease.Load(); l != nil {
				_, _ = l.Deadline(), l.Tokens()
				_, _ = l.GuardEntries()
				if l.Err() != nil {
					_ = l.Release()
				}
				asked.Add(1)
			}
		}})
		l, err := a.TryLock(c.Context())
		require.NoError(c, err)
		lease.Store(l)
		c.cut("a", true, 1, 2)
		<-l.Done()
		synctest.Wait()
		require.Positive(c, asked.Load())
		require.ErrorIs(c, l.Err(), farsync.ErrLost)
		c.cut("a", false, 1, 2)
	})
}

// The goroutine that takes a member is the first to see that the lease was lost, and Release waits for it.
func TestTraceMayReleaseTheLease(t *testing.T) {
	for range 50 {
		inCouncil(t, 3, func(c *council) {
			var held atomic.Pointer[farsync.MultiLease]
			var told, released atomic.Int32
			a, b := c.client("a", &farsync.Trace{Ended: func(farsync.TraceEnd) {
				told.Add(1)
				_ = held.Load().Release()
				released.Add(1)
			}}), c.client("b")
			stranger := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
			lease := c.lock(a)
			held.Store(lease)
			c.cut("a", true, 0)
			time.Sleep(quorumTTL / 2)
			require.Equal(c, []int{0, 1, 2}, c.held("a"), "it waits for the third")
			time.Sleep(time.Until(lease.Deadline()))
			require.NoError(c, stranger.Release())
			synctest.Wait()
			require.Positive(c, released.Load())
			require.Equal(c, told.Load(), released.Load())
			require.Empty(c, c.held("a")[1:])
			c.cut("a", false, 0)
		})
	}
}

// A member that was won at the moment of the release is given back in the background, so another may not get it yet.
func TestQuorumReleaseCountsWhatWasJustWon(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		won, proceed := make(chan struct{}), make(chan struct{})
		a, b := c.client("a", &farsync.Trace{Acquire: func(ctx context.Context, w farsync.TraceCall) (context.Context, func(farsync.TraceResult)) {
			return ctx, func(got farsync.TraceResult) {
				if w.Store == "member-2" && got.Err == nil {
					close(won)
					<-proceed
				}
			}
		}}), c.client("b")
		stranger := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		lease := c.lock(a)
		time.Sleep(quorumTTL / 8)
		require.NoError(c, stranger.Release())
		<-won
		c.cut("a", true, 1, 2)
		released := make(chan error)
		go func() { released <- lease.Release() }()
		synctest.Wait()
		close(proceed)
		require.ErrorIs(c, <-released, farsync.ErrUnavailable, "one of three is free")
		c.cut("a", false, 1, 2)
		require.NoError(c, c.soon(c.pursue(b), quorumTTL).Release())
	})
}

// Nothing stands at a member whose Store was closed.
func TestQuorumReleaseDoesNotCountWhatWasClosed(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a, b := c.client("a"), c.client("b")
		stranger := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		lease := c.lock(a)
		time.Sleep(quorumTTL / 8)
		require.Len(c, c.members[2].Entries(quorumPath), 2)
		require.NoError(c, a.stores[2].Close())
		synctest.Wait()
		require.NoError(c, stranger.Release())
		c.cut("a", true, 1)
		require.NoError(c, lease.Release(), "two of three are free")
		c.cut("a", false, 1)
		require.NoError(c, c.soon(c.pursue(b), quorumTTL).Release())
	})
}

// Release comes while members are being taken.
func TestQuorumLeaseIsReleasedWhileItTakesMembers(t *testing.T) {
	for _, latency := range []time.Duration{0, 100 * time.Millisecond} {
		inCouncil(t, 5, func(c *council) {
			a, b := c.client("a"), c.client("b")
			for _, m := range c.members {
				m.SetLatency(latency)
			}
			stranger := lock(c.T, farsync.NewMutex(b.stores[3], quorumPath))
			lease := c.lock(a)
			time.Sleep(quorumTTL/10 + latency)
			require.NoError(c, lease.Release())
			time.Sleep(quorumTTL)
			require.Empty(c, c.held("a"))
			require.NoError(c, stranger.Release())
			for _, m := range c.members {
				m.SetLatency(0)
			}
		})
	}
}

// A Lock with the context of one's own lease would wait for itself, through whichever of the members.
func TestQuorumMutexOfOneself(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a := c.client("a")
		lease := c.lock(a)
		ctx, cancel := lease.Context(c.Context())
		defer cancel()
		for i := range 5 {
			_, err := farsync.NewMutex(a.stores[i], quorumPath).Lock(ctx)
			require.ErrorIs(c, err, farsync.ErrDeadlock, "member %d", i)
		}
		_, err := a.Lock(ctx)
		require.ErrorIs(c, err, farsync.ErrDeadlock)
		_, err = a.TryLock(ctx)
		require.ErrorIs(c, err, farsync.ErrDeadlock)
		require.NotErrorIs(c, err, farsync.ErrLocked)
		require.NoError(c, ctx.Err())
		require.NoError(c, lease.Release())
		<-ctx.Done()
		require.ErrorIs(c, context.Cause(ctx), farsync.ErrReleased)
		cancelled, stop := context.WithCancel(c.Context())
		stop()
		_, err = a.Lock(cancelled)
		require.ErrorIs(c, err, context.Canceled)
		_, err = a.TryLock(cancelled)
		require.ErrorIs(c, err, context.Canceled)
	})
}

// A caller that gives up returns at once, and leaves nothing.
func TestQuorumMutexGivesUpAtOnce(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		a, b := c.client("a"), c.client("b")
		held := lock(c.T, farsync.NewMutex(b.stores[2], quorumPath))
		p := c.pursue(a)
		require.Equal(c, []int{0, 1, 2}, c.held("a"))
		c.cut("a", true, 0)
		began := time.Now()
		p.cancel()
		<-p.done
		require.Zero(c, time.Since(began))
		require.ErrorIs(c, p.err, context.Canceled)
		synctest.Wait()
		require.Equal(c, []int{0}, c.held("a"), "what cannot be reached")
		c.cut("a", false, 0)
		time.Sleep(quorumTTL)
		require.Empty(c, c.held("a"))
		require.NoError(c, held.Release())
	})
}

// A member that grants nothing after a restart is passed over, and does not make everyone wait for it.
func TestQuorumMutexPassesOverARestartedMember(t *testing.T) {
	inCouncil(t, 3, func(c *council) {
		a := c.client("a")
		c.members[0].Restart(time.Hour)
		time.Sleep(quorumTTL)
		began := time.Now()
		lease := c.lock(a)
		require.Zero(c, time.Since(began))
		require.Equal(c, []int{1, 2}, by(lease))
		require.NoError(c, lease.Release())
	})
}

// Two QuorumMutexes with members in common exclude each other or not, but never wait for each other.
func TestQuorumMutexesWithMembersInCommon(t *testing.T) {
	inCouncil(t, 5, func(c *council) {
		var clients []*client
		for i := range 6 {
			cl := c.client(fmt.Sprint("client-", i))
			var members []*farsync.Mutex
			for j := range 3 {
				members = append(members, farsync.NewMutex(cl.stores[(i+2*j)%5], quorumPath))
			}
			cl.QuorumMutex = farsync.NewQuorumMutex(members...)
			clients = append(clients, cl)
		}
		const rounds = 20
		done := make(chan int)
		for i, cl := range clients {
			go func() {
				for range rounds {
					lease, err := cl.Lock(c.Context())
					if err != nil {
						c.Error(err)
						break
					}
					time.Sleep(time.Duration(1+i) * quorumTTL / 20)
					if err := lease.Release(); err != nil {
						c.Error(err)
					}
				}
				done <- i
			}()
		}
		began := time.Now()
		for range clients {
			<-done
		}
		require.Less(c, time.Since(began), rounds*21*quorumTTL/20+quorumTTL, "as if one after another")
	})
}
