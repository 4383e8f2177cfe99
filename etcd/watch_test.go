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
