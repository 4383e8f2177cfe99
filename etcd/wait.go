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

// Wait watches the keys of the entries.
func (s *Store) Wait(ctx context.Context, anyOf ...recipe.Entry) error {
	in, leave := s.keeper.Enter(ctx)
	defer leave()
	var err error
	if len(anyOf) == 1 {
		err = s.wait(in, anyOf[0])
	} else {
		group, first := errgroup.WithContext(in)
		for _, e := range anyOf {
			group.Go(func() error {
				if err := s.wait(first, e); err != nil {
					return err
				}
				return errChanged
			})
		}
		if err = group.Wait(); errors.Is(err, errChanged) {
			err = nil
		}
	}
	if err != nil {
		return s.keeper.Verdict(ctx, err)
	}
	return nil
}

// wait returns nil when the key is gone or may have changed. It watches again when a watch fails.
func (s *Store) wait(ctx context.Context, e recipe.Entry) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		err := s.watch(ctx, e)
		if err == nil || refused(err) || recipe.Pause(ctx, delay) != nil {
			return err
		}
	}
}

// watch waits for one event on the key.
//
// It begins with no revision. A watch from a revision that the store has passed already would be put among those that
// the server brings up to date every 100 ms; one without is up to date from the start, but tells nothing of what was
// before. So once the server says that the watch is on, one read closes the gap: if the key is gone by then, or was
// changed, there is nothing to wait for; if it goes later, the watch tells, also if it runs on another member than
// the one that answered the read.
func (s *Store) watch(ctx context.Context, e recipe.Entry) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	options := []clientv3.OpOption{clientv3.WithCreatedNotify(), clientv3.WithProgressNotify()}
	if e.Kind != recipe.Write {
		// Only a writer's entry is changed in a way that matters to others: to a reader's, in its place.
		options = append(options, clientv3.WithFilterPut())
	}
	looked := false
	for resp := range s.client.Watch(ctx, e.ID, options...) {
		switch err := resp.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil // events may have been missed: look again
		case err != nil:
			return err
		}
		if len(resp.Events) > 0 {
			return nil
		}
		if looked || !resp.Created {
			continue
		}
		gone, err := s.gone(ctx, e)
		if gone || err != nil {
			return err
		}
		looked = true
	}
	return errWatchEnded
}

var errWatchEnded = errors.New("the watch ended")

// gone reports whether the entry's key is gone or is another's by now. The read is a full one: only that shows the key's
// lease.
func (s *Store) gone(ctx context.Context, e recipe.Entry) (bool, error) {
	resp, err := s.get(ctx, e.ID)
	if err != nil {
		return false, err
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != e.Revision {
		return true, nil
	}
	if resp.Kvs[0].Lease == 0 {
		return false, leaselessError(e.ID)
	}
	now, _ := parseEntry(e.Queue, resp.Kvs[0])
	return now.Kind != e.Kind, nil
}
