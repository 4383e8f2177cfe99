package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/driver"
)

// errChanged ends a group of watches when one of them is over.
var errChanged = errors.New("changed")

// Watch watches the keys of the targets: a single one by itself, several entries with one watch on their queue.
func (s *session) Watch(ctx context.Context, _ driver.Entry, on []driver.Target) (*driver.View, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	list := watches(on)
	if len(list) == 1 {
		return nil, s.watch(ctx, list[0])
	}
	group, first := errgroup.WithContext(ctx)
	for _, w := range list {
		group.Go(func() error {
			if err := s.watch(first, w); err != nil {
				return err
			}
			return errChanged
		})
	}
	if err := group.Wait(); !errors.Is(err, errChanged) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // no error, and no proof
}

// A watch is what one watch of the client is for.
type watch struct {
	key     string
	options []clientv3.OpOption
	targets map[string]driver.Target // by key; none for the first entry of a queue
	queue   string                   // if key is the beginning of this queue's keys
}

// watches are those for the targets: one for all the entries of a queue, which filters out the others' joining, and one
// for each other key.
func watches(on []driver.Target) (list []watch) {
	queues := map[string][]driver.Target{}
	single := func(key string, t driver.Target, options ...clientv3.OpOption) {
		list = append(list, watch{key: key, options: options, targets: map[string]driver.Target{key: t}})
	}
	for _, t := range on {
		e := t.Entry
		switch t.What {
		case driver.Registered:
			single(e.Queue, t)
		case driver.Joined:
			list = append(list, watch{
				key: prefix(e.Queue), queue: e.Queue,
				options: []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()},
			})
		case driver.Told:
			single(askKey(e), t, clientv3.WithFilterDelete())
			single(e.ID, driver.Target{Entry: e}, clientv3.WithFilterPut())
		default:
			queues[e.Queue] = append(queues[e.Queue], t)
		}
	}
	for queue, targets := range queues {
		var options []clientv3.OpOption
		if !slices.ContainsFunc(targets, func(t driver.Target) bool { return t.What == driver.Changed }) {
			options = append(options, clientv3.WithFilterPut())
		}
		if len(targets) == 1 {
			single(targets[0].Entry.ID, targets[0], options...)
			continue
		}
		w := watch{
			key: prefix(queue), queue: queue, options: append(options, clientv3.WithPrefix()),
			targets: map[string]driver.Target{},
		}
		for _, t := range targets {
			w.targets[t.Entry.ID] = t
		}
		list = append(list, w)
	}
	return list
}

const (
	// The read that closes a watch's gap waits for lookLater where at least manyAhead are ahead of the entry.
	lookLater = 100 * time.Millisecond
	manyAhead = 3
)

// lookAfter returns how long after the watch is on its gap is closed.
func (w watch) lookAfter() time.Duration {
	for _, t := range w.targets {
		if len(w.targets) == 1 && t.Entry.Ahead >= manyAhead {
			return lookLater
		}
	}
	return 0
}

// watch waits for an event on one of the targets' keys.
//
// It begins with no revision. A watch from a revision that the store has passed already would be put among those that
// the server brings up to date every 100 ms; one without is up to date from the start, but tells nothing of what was
// before. So once the server says that the watch is on, one read closes the gap: if a key is gone by then, or was
// changed, there is nothing to wait for; if it goes later, the watch tells, also if it runs on another member than
// the one that answered the read.
//
// The read waits a little where several are ahead of the entry: it can have gone in the gap only if it gave up, or if all
// of these came and went. Mostly its event comes first, and the read is saved.
func (s *session) watch(ctx context.Context, w watch) error {
	ctx, stream, leave := s.onStream(ctx)
	defer leave()
	events := s.client.Watch(ctx, w.key,
		append(w.options, clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())...)
	var look <-chan time.Time
	for {
		var resp clientv3.WatchResponse
		var ok bool
		select {
		case <-look:
			if gone, err := s.gone(ctx, w); gone || err != nil {
				return err
			}
			continue
		case <-stream.ask:
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
			return err
		}
		stream.heard.Add(1)
		if resp.IsProgressNotify() {
			s.progresses.Store(true)
		}
		if slices.ContainsFunc(resp.Events, func(event *clientv3.Event) bool { return w.about(event.Kv) }) {
			return nil
		}
		if resp.Created {
			look = time.After(w.lookAfter())
		}
	}
}

// about reports whether a key is one of the targets', or if there are none, one whose creation was waited for.
func (w watch) about(kv *mvccpb.KeyValue) bool {
	if w.targets == nil {
		_, ok := parseEntry(w.queue, kv) // else it belongs to another queue, further down
		return ok
	}
	_, ok := w.targets[string(kv.Key)]
	return ok
}

// gone reports whether a target has changed since it was read. The read is a full one: only that shows the keys' leases.
//
// A Watch may last for as long as its caller likes, but no read does: it may have come to a member that never answers.
func (s *session) gone(ctx context.Context, w watch) (bool, error) {
	var options []clientv3.OpOption
	if w.queue != "" {
		options = append(options, clientv3.WithPrefix())
	}
	limited, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	resp, err := s.get(limited, w.key, options...)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		if limited.Err() != nil {
			s.impatient.Add(1)
		}
		return false, fmt.Errorf("looking at what is watched: %w", err)
	}
	s.impatient.Store(0)
	keys := map[string]*mvccpb.KeyValue{}
	for _, kv := range resp.Kvs {
		if w.targets == nil && w.about(kv) {
			return true, nil
		}
		keys[string(kv.Key)] = kv
	}
	for key, t := range w.targets {
		kv, there := keys[key]
		switch {
		case t.What == driver.Told:
			return there, nil
		case t.What == driver.Registered:
			return kv.GetModRevision() != t.Entry.Version, nil
		case kv.GetCreateRevision() != t.Entry.Revision, t.What == driver.Changed && kv.ModRevision != t.Entry.Version:
			return true, nil
		case kv.Lease == 0:
			return false, leaselessError(key) // it will block for ever
		}
	}
	return false, nil
}
