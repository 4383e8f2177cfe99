package etcdtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/etcd"
)

// These are the shortest ways to what goes wrong in docs/MODEL.md where a condition of "A release that tells whom it lets in" is left out, and what
// the model does not have: long queues, what other programs put, and what the server forgets. Nothing in them looks by itself: no driver does.

// newUnits is newRow for a semaphore.
func newUnits(t *testing.T, size int64) row {
	r := newRow(t)
	lease, err := farsync.NewSemaphore(newStore(t, r.endpoint, unaided), r.queue, size).Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, lease.Release())
	return r
}

// takes appends a permit of a session of its own.
func (r row) takes(units int64) *stander { return r.takesIn(r.open(), units) }

func (r row) takesIn(in session, units int64) *stander {
	p := &stander{session: in, row: r}
	e := in.entry(r.queue, driver.Permit)
	e.ID, e.Units = in.NewID(r.queue, driver.Permit, units), units
	p.create(e)
	return p
}

// waitsFor is takes for one that waits for its turn.
func (r row) waitsFor(units int64) *stander {
	r.Helper()
	p := r.takes(units)
	require.True(r, p.v.Turn)
	return p
}

// letIn requires that a removal has let in those.
func (r row) letIn(v driver.View, those ...*stander) {
	r.Helper()
	var ids, want []string
	for _, e := range v.Entries {
		ids = append(ids, e.ID)
	}
	for _, p := range those {
		want = append(want, p.v.Self.ID)
	}
	require.Equal(r, want, ids)
	require.Equal(r, len(those) > 0, v.Turn)
}

// told requires that those have a turn, and no others.
func (r row) told(those ...*stander) {
	r.Helper()
	var keys, want []string
	for _, kv := range keysOf(r, r.admin, r.queue+"!turn") {
		keys = append(keys, string(kv.Key))
	}
	for _, p := range those {
		_, id, _ := strings.Cut(p.v.Self.ID[len(r.queue):], "-")
		at, lease, _ := strings.Cut(id, "t")
		want = append(want, r.queue+"!turn/t"+strings.TrimLeft(lease, "0")+"."+at)
	}
	require.ElementsMatch(r, want, keys)
}

// TestFreeUnitsTellNone: the removal is one transaction, and nothing follows.
func TestFreeUnitsTellNone(t *testing.T) {
	r := newUnits(t, 3)
	a, b := r.takes(1), r.takes(1)
	require.False(t, a.v.Turn)
	require.True(t, b.v.Turn, "if it does not fit")
	r.letIn(a.out())
	r.letIn(b.out())
}

// TestTwoThatLeaveAtOnce let in one each, though both have left before either tells.
func TestTwoThatLeaveAtOnce(t *testing.T) {
	r := newUnits(t, 2)
	a, b := r.takes(1), r.takes(1)
	c, d, e := r.waitsFor(1), r.waitsFor(1), r.waitsFor(1)
	second, first := b.out(), a.out()
	r.letIn(second, c)
	r.letIn(first, d)
	a.touch(first)
	r.told(d)
	b.touch(second)
	r.told(c, d)
	c.leave()
	r.told(d, e)
}

// TestUnitsLetInSeveral: a removal of several units, and one that gives up and was in the way of those behind it.
func TestUnitsLetInSeveral(t *testing.T) {
	r := newUnits(t, 3)
	a := r.takes(3)
	b, c, d, e := r.waitsFor(1), r.waitsFor(1), r.waitsFor(3), r.waitsFor(1)
	v := a.out()
	r.letIn(v, b, c)
	b.leave()
	r.told()
	a.touch(v)
	r.told(c) // b has gone, and does not keep c from its turn
	r.letIn(d.out(), e)
}

// TestRemovalWhoseAnswerIsLost: the next attempt finds nothing, and does not know what the first has let in.
func TestRemovalWhoseAnswerIsLost(t *testing.T) {
	r := newUnits(t, 1)
	f := new(faults)
	a := r.takesIn(openSession(t, newClient(t, r.endpoint, f.dial()...)), 1)
	b, c := r.waitsFor(1), r.waitsFor(1)
	f.next("/etcdserverpb.KV/Txn", loseReply)
	_, _, err := a.Delete(t.Context(), a.v.Self)
	require.Error(t, err)
	v, found, err := a.Delete(t.Context(), a.v.Self)
	require.NoError(t, err)
	require.False(t, found)
	require.True(t, v.Turn)
	a.touch(v)
	r.told(b)
	b.leave()
	r.told(c)
}

// TestTouchWhoseAnswerIsLost is made again, and none is told twice.
func TestTouchWhoseAnswerIsLost(t *testing.T) {
	r := newUnits(t, 1)
	f := new(faults)
	a := r.takesIn(openSession(t, newClient(t, r.endpoint, f.dial()...)), 1)
	b := r.waitsFor(1)
	v := a.out()
	f.next("/etcdserverpb.KV/Txn", loseReply)
	_, err := a.Touch(t.Context(), v)
	require.Error(t, err)
	r.told(b)
	put := keysOf(t, r.admin, r.queue+"!turn")[0]
	a.touch(v)
	require.Equal(t, put.ModRevision, keysOf(t, r.admin, r.queue+"!turn")[0].ModRevision)
}

// TestUnitsOfALongQueue: the page of the removal is not all of it, so Touch looks: at the revision of the removal, or if the server has forgotten
// that, at what fits now.
func TestUnitsOfALongQueue(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		name := "at the revision of the removal"
		if forgotten {
			name = "what fits now"
		}
		t.Run(name, func(t *testing.T) {
			server, admin := beginAlone(t)
			r := row{t, newPath(t), admin, server.Endpoint()}
			lease, err := farsync.NewSemaphore(newStore(t, r.endpoint, unaided), r.queue, 2).Acquire(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, lease.Release())
			in := r.open()
			a, b := r.takes(1), r.takes(1)
			c, d := r.takesIn(in, 1), r.takesIn(in, 1)
			for range 130 {
				r.takesIn(in, 1)
			}
			require.False(t, r.takesIn(in, 1).v.Turn, "not all was shown")
			first := a.out()
			require.True(t, first.Turn)
			require.Empty(t, first.Entries)
			if forgotten {
				_, err := admin.Put(t.Context(), "/elsewhere", "")
				require.NoError(t, err)
				now, err := admin.Get(t.Context(), "/elsewhere")
				require.NoError(t, err)
				_, err = admin.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
				require.NoError(t, err)
				a.touch(first)
				r.told(b, c)
				return
			}
			second := b.out()
			a.touch(first)
			r.told(c)
			b.touch(second)
			r.told(c, d)
		})
	}
}

// TestNameThatLies: a key that another program made names a lease that is not there. The others are told all the same.
func TestNameThatLies(t *testing.T) {
	r := newUnits(t, 3)
	a := r.takes(3)
	b := r.waitsFor(1)
	name := b.v.Self.ID[len(r.queue)+1:]
	r.put(name[:len(name)-16] + "0000000000000007")
	c := r.waitsFor(1)
	a.leave()
	r.told(b, c)
}

// TestManyThatAreLetIn are more than one transaction tells.
func TestManyThatAreLetIn(t *testing.T) {
	const many = 100
	r := newUnits(t, many)
	a := r.takes(many)
	in := r.open()
	var all []*stander
	for range many {
		all = append(all, r.takesIn(in, 1))
	}
	a.leave()
	r.told(all...)
}

// TestPermitsAreNoneOfAMutex: a permit that has joined a queue of mutexes by mistake is given no turn there, and takes none from the next.
func TestPermitsAreNoneOfAMutex(t *testing.T) {
	r := newRow(t)
	a, b := r.alone(), r.takes(1)
	require.False(t, b.v.Turn)
	c := r.joins()
	require.False(t, c.v.Turn, "it looks, and watches")
	a.leave()
	r.told()
	b.leave()
	r.turns()
	c.leave()
	r.told()
}

// TestSessionWithoutTurnsMakesPlainPermits as one of an earlier version.
func TestSessionWithoutTurnsMakesPlainPermits(t *testing.T) {
	r := newUnits(t, 1)
	client := newClient(t, r.endpoint)
	client.KV = struct{ clientv3.KV }{client.KV}
	service, err := etcd.NewService(client)
	require.NoError(t, err)
	in, err := service.Open(t.Context(), 10*soon)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(t.Context()) })
	plain := r.takesIn(session{in, service.Outcome}, 1)
	require.Regexp(t, "/s1-[A-Z2-7]{26}$", plain.v.Self.ID)
	behind := r.takes(1)
	require.False(t, behind.v.Turn)
	plain.leave()
	r.told()
}
