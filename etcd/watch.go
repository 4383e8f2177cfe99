package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// Watch watches the keys of the targets: a single one by itself, several entries with one watch on their queue. It stands
// when all of its watches do, and ends with the first of them.
func (s *session) Watch(
	ctx context.Context, _ driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	list := watches(on)
	if len(list) == 1 {
		return nil, s.watch(ctx, list[0], stands)
	}
	ctx, end := context.WithCancel(ctx)
	over := make(chan error, len(list))
	var standing atomic.Int64
	var tasks sync.WaitGroup
	for _, w := range list {
		tasks.Go(func() {
			over <- s.watch(ctx, w, func() {
				if standing.Add(1) == int64(len(list)) {
					stands()
				}
			})
		})
	}
	err := <-over
	end()
	tasks.Wait()
	return nil, err
}

// A watch is what one watch of the client is for.
type watch struct {
	key     string
	options []clientv3.OpOption
	targets []driver.Target
	all     bool // key is the beginning of all keys of a queue
}

// watches returns the watches for the targets: one for all the entries of a queue, and one for each other key. The server
// filters events, so those that are left out cost nothing on the wire: puts, unless a change in place is waited for, and
// deletions where a key is to come.
//
// Words for an entry are a key of their own, so the end of the entry takes a second watch.
func watches(on []driver.Target) (list []watch) {
	queues := map[string][]driver.Target{}
	add := func(key string, t driver.Target, filters ...clientv3.OpOption) {
		list = append(list, watch{key: key, options: filters, targets: []driver.Target{t}})
	}
	for _, t := range on {
		switch t.What {
		case driver.Registered:
			add(sizeKey(t.Entry.Queue), t)
		case driver.Told:
			add(askKey(t.Entry), t, clientv3.WithFilterDelete())
			add(t.Entry.ID, driver.Target{Entry: t.Entry}, clientv3.WithFilterPut())
		default:
			queues[t.Entry.Queue] = append(queues[t.Entry.Queue], t)
		}
	}
	for queue, targets := range queues {
		w := watch{key: targets[0].Entry.ID, targets: targets}
		among := func(what driver.What) bool {
			return slices.ContainsFunc(targets, func(t driver.Target) bool { return t.What == what })
		}
		switch {
		case among(driver.Joined):
			w.options = append(w.options, clientv3.WithFilterDelete())
		case !among(driver.Changed):
			w.options = append(w.options, clientv3.WithFilterPut())
		}
		if len(targets) > 1 || among(driver.Joined) {
			w.key, w.all, w.options = prefix(queue), true, append(w.options, clientv3.WithPrefix())
		}
		list = append(list, w)
	}
	return list
}

// is reports whether a key that w shows is that of a target; of an entry that is waited for, if it is to join.
func (w watch) is(t driver.Target, kv *mvccpb.KeyValue) bool {
	if t.What == driver.Joined {
		_, ok := parseEntry(t.Entry.Queue, kv) // else it belongs to another queue, further down
		return ok
	}
	return !w.all || t.Entry.ID == string(kv.Key)
}

// watch returns nil once a target of w may have changed.
//
// A watch that begins at a revision in the past would be served late: the server sends such ones their events every 100
// milliseconds. So it begins now. When the server says that it is on, one read closes the gap: if a key is gone by then,
// or was changed, there is nothing to wait for; if it goes later, the watch tells, also if it runs on another member than
// the one that answered the read.
//
// The read waits a little where several are ahead of the entry: it can have gone in the gap only if it gave up, or if all
// of these came and went. Mostly its event comes first, and the read is saved.
func (s *session) watch(ctx context.Context, w watch, stands func()) error {
	ctx, on, begun, leave := s.onStream(ctx)
	defer leave()
	events := s.client.Watch(ctx, w.key,
		append(w.options, clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())...)
	var look <-chan time.Time
	for {
		var resp clientv3.WatchResponse
		var ok bool
		select {
		case <-look:
			if changed, err := s.changed(ctx, w); changed || err != nil {
				return err
			}
			stands()
			continue
		case <-on.ask:
			// From here, for the client would open a stream for the request if there were none, and never close it.
			_ = s.client.RequestProgress(ctx) // a stream that does not take it does not answer it
			continue
		case resp, ok = <-events:
		case <-ctx.Done():
			// The client closes the channel too, but not before it has got rid of what it tells the server about the
			// watches that others gave up before.
		}
		err := resp.Err()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ok:
			return errWatchOver
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // events may have been missed: look again
		case err != nil:
			return s.allowed(err)
		}
		on.heard.Add(1)
		if resp.IsProgressNotify() {
			s.progresses.Store(true)
		}
		for _, event := range resp.Events {
			if slices.ContainsFunc(w.targets, func(t driver.Target) bool { return w.is(t, event.Kv) }) {
				return nil
			}
		}
		if resp.Created {
			begun()
			look = time.After(w.lookAfter())
		}
	}
}

const (
	// The read that closes a watch's gap waits for lookLater where at least manyAhead are ahead of the entry.
	lookLater = 100 * time.Millisecond
	manyAhead = 3
)

// lookAfter returns how long after the watch is on its gap is closed.
func (w watch) lookAfter() time.Duration {
	if len(w.targets) == 1 && w.targets[0].Entry.Ahead >= manyAhead {
		return lookLater
	}
	return 0
}

// changed reports whether a target has changed since it was read. The read is a full one: only that shows the keys' leases.
//
// An entry is told by its create revision, and a register by its mod revision, which is 0 while there is none. A key that is
// not there has both 0, and so has no entry's.
func (s *session) changed(ctx context.Context, w watch) (changed bool, err error) {
	resp, err := s.get(ctx, w.key, w.options...) // which are a prefix, and filters of events
	if err != nil {
		return false, fmt.Errorf("looking at what is watched: %w", err)
	}
	for _, t := range w.targets {
		var kv *mvccpb.KeyValue
		if i := slices.IndexFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return w.is(t, kv) }); i >= 0 {
			kv = resp.Kvs[i]
		}
		switch t.What {
		case driver.Joined, driver.Told:
			changed = changed || kv != nil
		case driver.Registered:
			changed = changed || kv.GetModRevision() != t.Entry.Version
		default:
			changed = changed || kv.GetCreateRevision() != t.Entry.Revision ||
				t.What == driver.Changed && kv.ModRevision != t.Entry.Version
			if !changed && kv.Lease == 0 {
				return false, leaseless(kv.Key) // it will block for ever
			}
		}
	}
	return changed, nil
}
