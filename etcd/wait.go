package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/recipe"
)

// errChanged ends a group of waits when one of them is over.
var errChanged = errors.New("changed")

// Wait watches the keys of the entries: a single one by itself, several with one watch on their queue.
func (s *Store) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	if len(anyOf) == 1 {
		if err := s.wait(in, single(anyOf[0])); err != nil {
			return s.keeper.Verdict(ctx, err)
		}
		return nil
	}
	group, first := errgroup.WithContext(in)
	for _, w := range watches(anyOf) {
		group.Go(func() error {
			if err := s.wait(first, w); err != nil {
				return err
			}
			return errChanged
		})
	}
	if err := group.Wait(); !errors.Is(err, errChanged) {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}

// A watching is what one watch is for.
type watching struct {
	key     string
	options []clientv3.OpOption
	entries map[string]recipe.Entry // by key; none if it is for a key that is not there yet
	queue   string                  // if key is the beginning of this queue's keys
}

const (
	// The read that closes a watch's gap waits for lookLater where at least manyAhead are ahead of the entry.
	lookLater = 100 * time.Millisecond
	manyAhead = 3
)

// lookAfter returns how long after the watch is on its gap is closed.
func (w watching) lookAfter() time.Duration {
	for _, e := range w.entries {
		if e.Ahead < manyAhead || len(w.entries) > 1 {
			return 0
		}
	}
	if len(w.entries) == 0 {
		return 0
	}
	return lookLater
}

// single is the watch for one entry. It is a whole queue's for its emptiness.
func single(e recipe.Entry) watching {
	w := watching{key: e.ID, entries: map[string]recipe.Entry{e.ID: e}}
	switch {
	case e.Kind == recipe.Vacant:
		return watching{
			key: prefix(e.Queue), queue: e.Queue,
			options: []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()},
		}
	case e.Kind != recipe.Write && e.Kind != recipe.Size && e.Version == 0:
		w.options = append(w.options, clientv3.WithFilterPut())
	}
	return w
}

// watches are those for several entries: one for all the entries of a queue, which does not wake for others, and one
// for its size.
func watches(anyOf []recipe.Entry) []watching {
	queues := map[string][]recipe.Entry{}
	var list []watching
	for _, e := range anyOf {
		if e.Kind == recipe.Size || e.Kind == recipe.Vacant {
			list = append(list, single(e))
			continue
		}
		queues[e.Queue] = append(queues[e.Queue], e)
	}
	for queue, entries := range queues {
		if len(entries) == 1 {
			list = append(list, single(entries[0]))
			continue
		}
		w := watching{
			key: prefix(queue), queue: queue, options: []clientv3.OpOption{clientv3.WithPrefix()},
			entries: map[string]recipe.Entry{},
		}
		for _, e := range entries {
			w.entries[e.ID] = e
		}
		list = append(list, w)
	}
	return list
}

// wait returns nil when the key is gone or may have changed. It watches again when a watch fails.
func (s *Store) wait(ctx context.Context, w watching) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		err := s.watch(ctx, w)
		if err == nil || refused(err) || recipe.Pause(ctx, delay) != nil {
			return err
		}
	}
}

// watch waits for an event on one of the entries' keys.
//
// It begins with no revision. A watch from a revision that the store has passed already would be put among those that
// the server brings up to date every 100 ms; one without is up to date from the start, but tells nothing of what was
// before. So once the server says that the watch is on, one read closes the gap: if a key is gone by then, or was
// changed, there is nothing to wait for; if it goes later, the watch tells, also if it runs on another member than
// the one that answered the read.
//
// The read waits a little where several are ahead of the entry: it can have gone in the gap only if it gave up, or if all
// of these came and went. Mostly its event comes first, and the read is saved.
func (s *Store) watch(ctx context.Context, w watching) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watch := s.client.Watch(ctx, w.key,
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
		case resp, ok = <-watch:
			if !ok {
				return errWatchEnded
			}
		case <-ctx.Done():
			// The client closes the channel too, but not before it has got rid of what it tells the server about the
			// watches that others gave up before.
			return ctx.Err()
		}
		switch err := resp.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // events may have been missed: look again
		case err != nil:
			return err
		}
		if w.touched(resp.Events) {
			return nil
		}
		switch later := w.lookAfter(); {
		case !resp.Created:
		case later > 0:
			look = time.After(later)
		default:
			if gone, err := s.gone(ctx, w); gone || err != nil {
				return err
			}
		}
	}
}

var errWatchEnded = errors.New("the watch ended")

// touched reports whether one of the events is about one of the entries.
func (w watching) touched(events []*clientv3.Event) bool {
	return slices.ContainsFunc(events, func(event *clientv3.Event) bool { return w.about(event.Kv) })
}

// about reports whether a key is one of the entries', or if there are none, one whose making was waited for.
func (w watching) about(kv *mvccpb.KeyValue) bool {
	if len(w.entries) > 0 {
		_, ok := w.entries[string(kv.Key)]
		return ok
	}
	if w.queue == "" {
		return true
	}
	_, ok := parseEntry(w.queue, kv) // else it belongs to another queue, further down
	return ok
}

// gone reports whether one of the entries' keys is gone, was made again, or has changed. The read is a full one: only
// that shows the keys' leases.
func (s *Store) gone(ctx context.Context, w watching) (bool, error) {
	var options []clientv3.OpOption
	if w.queue != "" {
		options = append(options, clientv3.WithPrefix())
	}
	resp, err := s.get(ctx, w.key, options...)
	if err != nil {
		return false, err
	}
	if len(w.entries) == 0 {
		return slices.ContainsFunc(resp.Kvs, w.about), nil
	}
	there := 0
	for _, kv := range resp.Kvs {
		e, ok := w.entries[string(kv.Key)]
		switch {
		case !ok:
			continue
		case e.Kind == recipe.Size:
			if kv.ModRevision != e.Revision {
				return true, nil
			}
		case kv.CreateRevision != e.Revision, e.Version != 0 && kv.ModRevision != e.Version:
			return true, nil
		case kv.Lease == 0:
			return false, leaselessError(e.ID)
		default:
			if now, _ := parseEntry(e.Queue, kv); now.Kind != e.Kind {
				return true, nil
			}
		}
		there++
	}
	return there < len(w.entries), nil
}
