package etcd

import (
	"sync"
	"testing"
	"time"

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

// TestRestOfAWatch is long where many are ahead of the entry that is waited for, and where a few are there is none.
func TestRestOfAWatch(t *testing.T) {
	const ttl = time.Minute
	target := func(ahead int) driver.Target {
		return driver.Target{Entry: driver.Entry{ID: "/q/m-A", Revision: 5, Ahead: ahead}}
	}
	several := func(ahead, n int) (list []driver.Target) {
		for i := range n {
			list = append(list, target(ahead+n-1-i)) // nearest first
		}
		return append(list, driver.Target{Entry: driver.Entry{Queue: "/q", Version: 4}, What: driver.Registered})
	}
	changed, told, behind := target(10), target(10), target(10)
	changed.What, told.What, behind.Entry.Revision = driver.Changed, driver.Told, 9
	for _, row := range []struct {
		name string
		on   []driver.Target
		ttl  time.Duration
		rest time.Duration
	}{
		{"of an entry with none ahead", []driver.Target{target(0)}, ttl, 0},
		{"with a few", []driver.Target{target(2)}, ttl, 0},
		{"with three", []driver.Target{target(3)}, ttl, 45 * time.Millisecond},
		{"with many", []driver.Target{target(100)}, ttl, 500 * time.Millisecond},
		{"with many, and a short TTL", []driver.Target{target(100)}, 3 * time.Second, 250 * time.Millisecond},
		{"of a change", []driver.Target{changed}, ttl, 150 * time.Millisecond},
		{"of several, with as many ahead", several(8, 8), ttl, 0},
		{"of several, with as many ahead and three more", several(11, 8), ttl, 45 * time.Millisecond},
		{"of words", []driver.Target{told}, ttl, 0},
		{"of an entry behind", []driver.Target{behind}, ttl, 0},
		{"of a size", several(0, 0), ttl, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &session{ttl: row.ttl}
			require.Equal(t, row.rest, s.rest(&driver.Entry{ID: "/q/m-B", Revision: 7}, row.on))
			require.Zero(t, s.rest(new(driver.Entry), row.on), "on behalf of no entry")
		})
	}
}

// TestWatchBeginsWhileASessionIsRenewed: the answer to the renewal may change the TTL. The race detector looks on.
func TestWatchBeginsWhileASessionIsRenewed(t *testing.T) {
	s := &session{ttl: 3 * time.Second}
	var all sync.WaitGroup
	all.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ttl = time.Second
	})
	rest := s.rest(&driver.Entry{ID: "/q/w-B", Revision: 7}, []driver.Target{{Entry: driver.Entry{ID: "/q/w-A", Ahead: 100}}})
	all.Wait()
	require.LessOrEqual(t, rest, 3*time.Second/12)
}
