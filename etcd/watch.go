package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/metadata"

	"github.com/farsync/farsync/driver"
)

// Watch watches the keys of the targets: a single one by itself, several entries with one watch on the range in which they lie. It stands
// when all of its watches do, and ends with the first of them.
//
// An entry that is alone ahead of e is watched together with e, which makes a proof of its end.
func (s *session) Watch(ctx context.Context, e driver.Entry, on []driver.Target, stands func()) (*driver.View, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	if len(on) == 1 && on[0].Alone && on[0].What == driver.Gone && e.ID != "" {
		w := watches([]driver.Target{on[0], {Entry: e}})[0]
		w.self = &e
		return s.watch(ctx, w, stands)
	}
	list := watches(on)
	if len(list) == 1 {
		return s.watch(ctx, list[0], stands)
	}
	all, ctx := errgroup.WithContext(ctx)
	var standing atomic.Int64
	for _, w := range list {
		all.Go(func() error {
			_, err := s.watch(ctx, w, func() {
				if standing.Add(1) == int64(len(list)) {
					stands()
				}
			})
			return cmp.Or(err, errMoved)
		})
	}
	if err := all.Wait(); !errors.Is(err, errMoved) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // no error, and no proof
}

// errMoved ends the other watches of a call.
var errMoved = errors.New("it may have changed")

// A watch is what one watch of the client is for: one target, or several entries of a queue, nearest first.
type watch struct {
	key     string
	options []clientv3.OpOption
	targets []driver.Target
	self    *driver.Entry // the second of two targets, of which the first was alone ahead of it; else nil
}

// watches returns the watches for the targets. Words for an entry are a key of their own, so the end of the entry takes a
// second watch.
//
// The server filters events: where only ends of entries are waited for, the waiters of a queue are not sent each that joins.
func watches(on []driver.Target) (list []watch) {
	var entries []driver.Target
	for _, t := range on {
		switch t.What {
		case driver.Registered:
			list = append(list, watch{key: sizeKey(t.Entry.Queue), targets: []driver.Target{t}})
			continue
		case driver.Told:
			list = append(list, watch{key: askKey(t.Entry), targets: []driver.Target{t}})
			t.What = driver.Gone
		}
		entries = append(entries, t)
	}
	if len(entries) == 0 {
		return list
	}
	w := watch{key: entries[0].Entry.ID, targets: entries}
	switch {
	case entries[0].What == driver.Joined:
		w.key, w.options = prefix(entries[0].Entry.Queue), append(w.options, clientv3.WithPrefix())
	case len(entries) > 1:
		last := w.key
		for _, t := range entries {
			w.key, last = min(w.key, t.Entry.ID), max(last, t.Entry.ID)
		}
		w.options = append(w.options, clientv3.WithRange(last+"\x00")) // to the last and with it
	}
	if !slices.ContainsFunc(entries, func(t driver.Target) bool { return t.What != driver.Gone }) {
		w.options = append(w.options, clientv3.WithFilterPut())
	}
	return append(list, w)
}

// is reports whether a key that w shows is that of a target; of an entry that is waited for, if it is to join.
func (w watch) is(t driver.Target, kv *mvccpb.KeyValue) bool {
	if t.What == driver.Joined {
		_, ok := parseEntry(t.Entry.Queue, kv) // else it belongs to another queue, further down
		return ok
	}
	return len(w.targets) == 1 || t.Entry.ID == string(kv.Key)
}

// moved reports whether a target is not as it was when it was read. Now is its key, nil if it is not there.
//
// An entry is told by its create revision, and a register by its mod revision, which is 0 while there is none.
func moved(t driver.Target, now *mvccpb.KeyValue) bool {
	switch t.What {
	case driver.Joined:
		return now != nil
	case driver.Told:
		return now.GetModRevision() > t.Entry.Revision // else it was told an entry that had the key before
	case driver.Registered:
		return now.GetModRevision() != t.Entry.Version
	default:
		return now == nil || now.CreateRevision != t.Entry.Revision ||
			t.What == driver.Changed && now.ModRevision != t.Entry.Version
	}
}

// watch returns once a target of w may have changed.
//
// A watch that begins at a revision in the past would be served late: the server sends such ones their events every 100
// milliseconds. So it begins now. When the server says that it is on, one read closes the gap: if a key is gone by then,
// or was changed, there is nothing to wait for; if it goes later, the watch tells, also if it runs on another member than
// the one that answered the read.
//
// Of an entry and the one that is alone ahead of it, that read tells at one revision whether both are there. From then on all ends of
// both come in their order, and those of one revision together. So the end of the one proves that the other is at the head of the queue,
// unless its own end came before or comes with it. An event that comes before the read proves nothing: the other may have gone before the
// watch was on.
func (s *session) watch(ctx context.Context, w watch, stands func()) (proof *driver.View, err error) {
	on, stood := s.begin()
	defer on.watches.Add(-1)
	defer stood()
	ctx, end := context.WithCancelCause(
		metadata.AppendToOutgoingContext(outgoing(ctx), "farsync-watches", strconv.Itoa(on.number)))
	defer end(nil)
	defer context.AfterFunc(on.life, func() { end(context.Cause(on.life)) })()
	events := s.client.Watch(ctx, w.key,
		append(w.options, clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())...)
	var look <-chan time.Time
	looked := false
	for {
		select {
		case <-look:
			now, err := s.now(ctx, w)
			if err != nil || w.any(now) {
				return w.proof(now), err
			}
			looked = true
			stands()
		case <-on.ask:
			// From here, for the client would open a stream for the request if there were none, and never close it.
			_ = s.client.RequestProgress(ctx) // a stream that does not take it does not answer it
		case <-ctx.Done():
			// The client closes events too, but not before it has got rid of what it tells the server about the watches that
			// others gave up before.
			return nil, context.Cause(ctx)
		case resp, ok := <-events:
			switch err := resp.Err(); {
			case errors.Is(err, rpctypes.ErrCompacted):
				return nil, nil //nolint:nilnil // events may have been missed: look again
			case err != nil || !ok:
				return nil, cmp.Or(context.Cause(ctx), s.allowed(err), errWatchOver)
			}
			on.hear()
			if resp.IsProgressNotify() {
				s.progresses.Store(true)
			}
			switch seen := w.seen(resp.Events); {
			case w.any(seen) && looked:
				return w.proof(seen), nil
			case w.any(seen):
				return nil, nil //nolint:nilnil // no error, and no proof
			}
			if resp.Created {
				looked = false // between a watch and its successor an event may be lost
				stood()
				look = time.After(w.targets[0].Rest)
			}
		}
	}
}

// A moves reports whether a target has moved, as far as was seen.
type moves func(t driver.Target) bool

// any reports whether a target of w has moved.
func (w watch) any(m moves) bool { return slices.ContainsFunc(w.targets, m) }

// proof returns a view with nothing ahead of w.self, if that has not moved, and what was alone ahead of it has.
func (w watch) proof(m moves) *driver.View {
	if w.self == nil || m == nil || !m(w.targets[0]) || m(w.targets[1]) {
		return nil
	}
	return &driver.View{Self: *w.self, All: true}
}

// seen returns what events show. A watch on a member that is behind tells also what was before a target: the end of an entry that
// had its key earlier, say.
func (w watch) seen(events []*clientv3.Event) moves {
	return func(t driver.Target) bool {
		return slices.ContainsFunc(events, func(event *clientv3.Event) bool {
			if event.Kv.ModRevision <= t.Entry.Revision {
				return false
			}
			now := event.Kv
			if event.Type == clientv3.EventTypeDelete {
				now = nil
			}
			return w.is(t, event.Kv) && moved(t, now)
		})
	}
}

// now reads the keys of w, and returns what has moved. The read is a full one: only that shows the keys' leases.
func (s *session) now(ctx context.Context, w watch) (moves, error) {
	resp, err := s.get(ctx, w.key, w.options...) // which are a prefix or a range, and filters of events
	if err != nil {
		return nil, fmt.Errorf("looking at what is watched: %w", err)
	}
	key := func(t driver.Target) *mvccpb.KeyValue {
		if i := slices.IndexFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return w.is(t, kv) }); i >= 0 {
			return resp.Kvs[i]
		}
		return nil
	}
	m := func(t driver.Target) bool { return moved(t, key(t)) }
	if w.any(m) {
		return m, nil
	}
	for _, t := range w.targets {
		if (t.What == driver.Gone || t.What == driver.Changed) && key(t).Lease == 0 {
			return nil, stray(t.Entry) // it will block for ever
		}
	}
	return m, nil
}
