package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

// A key is used again, so the turn of the entry that had it before may be on its way when the next begins to wait: only a turn that was put
// after the entry was made is its own.
func TestHallTellsAnEntryItsOwnTurn(t *testing.T) {
	s := &session{spare: newSpare()}
	s.watching = newStream(t.Context(), 0)
	h := newHall("/q", 1)
	h.of.since = 10
	s.watching.halls = map[string]*hall{"/q": h}
	id := prefix("/q") + "m-" + turnID(1, 1)
	entry := func(at int64) driver.Entry {
		return driver.Entry{Queue: "/q", ID: id, Kind: driver.Exclusive, Revision: at}
	}
	put := func(at int64) {
		require.NoError(t, h.hear(s, s.watching, &pb.WatchResponse{Events: []*mvccpb.Event{
			{Kv: &mvccpb.KeyValue{Key: []byte(turnKey(entry(0))), Value: []byte("0\n"), ModRevision: at}},
		}}))
	}
	granted := func(at *seat) bool {
		proof, ready, err := s.turnAt(t.Context(), at, true)
		require.NoError(t, err)
		require.Equal(t, proof == nil, ready)
		return proof != nil
	}
	enter := func(at int64) *seat {
		e := entry(at)
		return s.enter(&e)
	}

	first := enter(20)
	put(21)
	require.True(t, granted(first))
	first.exit()
	again := enter(20)
	require.True(t, granted(again), "the answer was lost")
	again.exit()

	left := enter(30)
	put(31)
	left.exit()
	s.forget(entry(30))
	second := enter(40)
	require.False(t, granted(second), "that turn came, and its entry has left")
	second.exit()

	gone := enter(50)
	gone.exit()
	s.forget(entry(50))
	third := enter(60)
	put(51) // now it arrives
	require.False(t, granted(third), "that turn was late")
	put(61)
	require.True(t, granted(third))
	third.exit()
}
