package etcd

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

// A duo is a pair whose first wait is over, which was set up at revision 10.
type duo struct {
	*testing.T
	s          *session
	on         *stream
	p          *pair
	own, other string
}

func newDuo(t *testing.T) *duo {
	d := &duo{T: t, own: prefix("/q") + "m-" + turnID(1, 1), other: prefix("/q") + "m-" + turnID(2, 1)}
	d.s = &session{spare: newSpare()}
	d.on = newStream(t.Context(), 0)
	d.on.watches = map[int64]*watch{}
	d.s.watching = d.on
	d.begin()
	d.p = d.on.pairs[d.own]
	require.NotNil(t, d.p)
	require.Empty(t, d.on.out, "it is not cancelled")
	return d
}

// begin begins a wait and ends it.
func (d *duo) begin() {
	e, target := d.entries(9, 8)
	w := newWaiter(&e, []driver.Target{target})
	require.Len(d, w.list, 1)
	d.on.last++
	w.list[0].id, w.since = d.on.last, 10
	d.on.waiters, d.on.watches[d.on.last] = d.on.waiters+1, &w.list[0]
	d.on.end(w)
}

// entries are the own entry, and the target that was alone ahead of it.
func (d *duo) entries(own, other int64) (e driver.Entry, t driver.Target) {
	e = driver.Entry{Queue: "/q", ID: d.own, Kind: driver.Exclusive, Revision: own}
	return e, driver.Target{
		Entry: driver.Entry{Queue: "/q", ID: d.other, Kind: driver.Exclusive, Revision: other}, What: driver.Gone, Alone: true,
	}
}

// gone has the watch tell that a key was deleted.
func (d *duo) gone(key string, at int64) {
	d.Helper()
	require.NoError(d, d.s.hear(d.on, &pb.WatchResponse{WatchId: d.p.all.id, Events: []*mvccpb.Event{
		{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: at}},
	}}))
}

// waits returns what a wait returns that is given up when it blocks.
func (d *duo) waits(own, other int64) (is bool, v *driver.View, err error) {
	d.Helper()
	e, t := d.entries(own, other)
	on, p := d.s.pairOf(&e, &t)
	if p == nil {
		return false, nil, nil
	}
	ctx, giveUp := context.WithCancel(d.Context())
	giveUp()
	v, err = d.s.awaitOther(ctx, on, p, &e, &t, func() {})
	require.Zero(d, on.waiters)
	return true, v, err
}

func TestPairProvesWhatTheWatchHasTold(t *testing.T) {
	d := newDuo(t)
	d.gone(d.other, 9)
	for _, row := range []struct {
		name           string
		told           func()
		own, other     int64
		is, proof, end bool
	}{
		{"an entry that has joined before the watch was on", nil, 10, 8, false, false, false},
		{"an entry behind one that is there", nil, 20, 15, true, false, false},
		{"the other goes, before the wait begins", func() { d.gone(d.other, 21) }, 20, 15, true, true, true},
		{"the next behind the next", nil, 25, 23, true, false, false},
		{"the own goes", func() { d.gone(d.own, 26) }, 25, 23, true, false, true},
		{"both go, in an order that is not known", func() { d.gone(d.other, 27) }, 25, 23, true, false, true},
		{"the one before had the same key", func() { d.gone(d.own, 30); d.gone(d.other, 31) }, 33, 32, true, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.told != nil {
				row.told()
			}
			is, v, err := d.waits(row.own, row.other)
			require.Equal(t, row.is, is)
			require.Equal(t, row.proof, v != nil)
			if row.is && !row.end {
				require.ErrorIs(t, err, context.Canceled, "it waits")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// A watch on a member that is behind is set up at a revision of before its entry. If that waits again, since a read beside the watch had no
// answer, what the watch has told in between is lost.
func TestPairIsNotForTheEntryThatSetItUp(t *testing.T) {
	d := newDuo(t)
	d.p.of.since = 5
	is, _, _ := d.waits(9, 8)
	require.False(t, is)
	is, _, _ = d.waits(20, 15)
	require.True(t, is, "one that has joined later")
}

func TestPairEndsWithAThird(t *testing.T) {
	third := prefix("/q") + "m-" + turnID(1, 7)
	for name, ends := range map[string]func(d *duo){
		"that has gone": func(d *duo) { d.gone(third, 20) },
		"that has gone while it waits": func(d *duo) {
			e, target := d.entries(20, 15)
			on, p := d.s.pairOf(&e, &target)
			d.gone(third, 21)
			require.NotNil(d, on.pairs[d.own], "the wait goes on")
			on.unpair(p)
		},
		"that stands ahead, too": func(d *duo) { e, _ := d.entries(20, 15); d.s.crowd(e) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDuo(t)
			ends(d)
			require.Empty(t, d.on.pairs)
			require.Empty(t, d.on.watches)
			require.Len(t, d.on.out, 1)
			require.NotNil(t, d.on.out[0].GetCancelRequest())
		})
	}
	d := newDuo(t)
	e, target := d.entries(20, 15)
	target.Entry.ID = third
	on, p := d.s.pairOf(&e, &target)
	require.Nil(t, on, "it is of another")
	require.Nil(t, p)
}

func TestPairsAreFew(t *testing.T) {
	d := newDuo(t)
	e, target := d.entries(20, 15)
	on, p := d.s.pairOf(&e, &target)
	for n := range uint64(5 * mostPairs) {
		d.own = prefix("/q") + "m-" + turnID(1, 100+n)
		d.begin()
		require.NotNil(t, on.pairs[d.own])
		require.LessOrEqual(t, len(on.pairs), mostPairs)
		require.Len(t, on.watches, len(on.pairs))
	}
	require.Same(t, p, on.pairs[e.ID], "for which something waits")
	for _, p := range on.pairs {
		p.waits = true
	}
	d.own = prefix("/q") + "m-" + turnID(1, 99)
	d.begin()
	require.Nil(t, on.pairs[d.own])
	require.Len(t, on.watches, mostPairs)
}

func TestPairEndsWithItsWatch(t *testing.T) {
	for name, resp := range map[string]*pb.WatchResponse{
		"cancelled": {Canceled: true}, "compacted": {CompactRevision: 12, Canceled: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDuo(t)
			e, target := d.entries(20, 15)
			on, p := d.s.pairOf(&e, &target)
			resp.WatchId = p.all.id
			require.NoError(t, d.s.hear(on, resp))
			require.Empty(t, on.pairs)
			_, err := d.s.awaitOther(t.Context(), on, p, &e, &target, func() {})
			require.ErrorIs(t, err, errWatchOver)
		})
	}
}
