package etcd

import (
	"context"
	"errors"

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
	exact   bool                    // key is a whole key also where there are no entries
}

// single is the watch for one entry.
func single(e recipe.Entry) watching {
	w := watching{key: e.ID, entries: map[string]recipe.Entry{e.ID: e}}
	switch {
	case e.Kind == recipe.Vacant:
		return watching{key: prefix(e.Queue), options: []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()}}
	case e.Kind != recipe.Write && e.Kind != recipe.Size && e.Version == 0:
		w.options = append(w.options, clientv3.WithFilterPut())
	}
	return w
}

// watches are those for several entries: one for all the entries of a queue, which does not wake for others, and one
// for its size.
func watches(anyOf []recipe.Entry) []watching {
	byQueue := map[string]watching{}
	var list []watching
	for _, e := range anyOf {
		if e.Kind == recipe.Size || e.Kind == recipe.Vacant {
			list = append(list, single(e))
			continue
		}
		w, ok := byQueue[e.Queue]
		if !ok {
			w = watching{
				key: prefix(e.Queue), options: []clientv3.OpOption{clientv3.WithPrefix()}, entries: map[string]recipe.Entry{},
			}
			byQueue[e.Queue] = w
			list = append(list, w)
		}
		w.entries[e.ID] = e
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
func (s *Store) watch(ctx context.Context, w watching) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watch := s.client.Watch(ctx, w.key,
		append(w.options, clientv3.WithCreatedNotify(), clientv3.WithProgressNotify())...)
	looked := false
	for {
		var resp clientv3.WatchResponse
		var ok bool
		select {
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
		if looked || !resp.Created {
			continue
		}
		gone, err := s.gone(ctx, w)
		if gone || err != nil {
			return err
		}
		looked = true
	}
}

var errWatchEnded = errors.New("the watch ended")

// touched reports whether one of the events is about one of the entries.
func (w watching) touched(events []*clientv3.Event) bool {
	if len(w.entries) == 0 {
		return len(events) > 0 // somebody has joined an empty queue
	}
	for _, event := range events {
		if _, ok := w.entries[string(event.Kv.Key)]; ok {
			return true
		}
	}
	return false
}

// gone reports whether one of the entries' keys is gone, was made again, or has changed. The read is a full one: only
// that shows the keys' leases.
func (s *Store) gone(ctx context.Context, w watching) (bool, error) {
	var options []clientv3.OpOption
	if len(w.entries) != 1 && !w.exact {
		options = append(options, clientv3.WithPrefix())
	}
	resp, err := s.get(ctx, w.key, options...)
	if err != nil {
		return false, err
	}
	if len(w.entries) == 0 {
		return len(resp.Kvs) > 0, nil
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
