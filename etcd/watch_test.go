package etcd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// TestEventsThatProveAGrant: the watch is of the entry at 97, and of the one at 95, which is alone ahead of it.
func TestEventsThatProveAGrant(t *testing.T) {
	ahead := driver.Entry{Queue: "/q", ID: "/q/m-A", Revision: 95}
	self := driver.Entry{Queue: "/q", ID: "/q/m-B", Revision: 97}
	w := watch{targets: []driver.Target{{Entry: ahead}, {Entry: self}}, self: &self}
	end := func(key string, revision int64) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}}
	}
	for _, row := range []struct {
		name   string
		events []*clientv3.Event
		wakes  bool
		proof  *driver.View
	}{
		{"nothing", nil, false, nil},
		{"the end of the one ahead", []*clientv3.Event{end(ahead.ID, 99)}, true, &driver.View{Self: self, All: true}},
		{"the end of both", []*clientv3.Event{end(ahead.ID, 99), end(self.ID, 99)}, true, nil},
		{"its own end first", []*clientv3.Event{end(self.ID, 98), end(ahead.ID, 99)}, true, nil},
		{"its own end", []*clientv3.Event{end(self.ID, 98)}, true, nil},
		{"the end of another in between", []*clientv3.Event{end("/q/m-AA", 99)}, false, nil},
		// A member that is behind tells of it only now.
		{"the end of one that had the key of the one ahead before", []*clientv3.Event{end(ahead.ID, 90)}, false, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			seen := w.seen(row.events)
			require.Equal(t, row.wakes, w.any(seen))
			require.Equal(t, row.proof, w.proof(seen))
		})
	}
}

// TestWatchesOfAWaiterForUnits tell it of the end of each entry that leaves it no room, and of each other size.
func TestWatchesOfAWaiterForUnits(t *testing.T) {
	deleted := func(key string) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: 9}}
	}
	ids := []string{"/q/s2-C", "/q/s1-B", "/q/s1-D"} // nearest first
	targets := []driver.Target{{Entry: driver.Entry{Queue: "/q", Version: 4}, What: driver.Registered}}
	for i, id := range ids {
		targets = append(targets, driver.Target{Entry: driver.Entry{Queue: "/q", ID: id, Revision: int64(3 - i)}})
	}
	told := func(event *clientv3.Event) (told bool) {
		for _, w := range watches(targets) {
			key := string(event.Kv.Key)
			covers := key == w.key || w.end != "" && key >= w.key && key < w.end
			filtered := w.ends && event.Type != clientv3.EventTypeDelete
			told = told || covers && !filtered && w.any(w.seen([]*clientv3.Event{event}))
		}
		return told
	}
	for _, id := range ids {
		require.True(t, told(deleted(id)), id)
	}
	require.False(t, told(deleted("/q/s1-BA")), "between them, and not waited for")
	require.False(t, told(deleted("/q/s1-E")))
	size := &mvccpb.KeyValue{Key: []byte(sizeKey("/q")), ModRevision: 4}
	require.False(t, told(&clientv3.Event{Type: clientv3.EventTypePut, Kv: size}), "the size that it waits by")
	size.ModRevision = 5
	require.True(t, told(&clientv3.Event{Type: clientv3.EventTypePut, Kv: size}))
}
