package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/farsync/farsync/driver"
)

// mostPairs is how many pairs a stream keeps. Where there are more, each that is added ends another for which nothing
// waits.
const mostPairs = 16

// A pair is the watch on an entry and the entry that was alone ahead of it. The watch stays when that wait is over.
// Where two contend their keys are used again, so the next wait of the same two sets up no watch, and reads nothing:
// the watch tells all that comes after it was set up, and that was before the entry joined.
//
// A pair is of one stream. It ends when a third entry shows: the range between the keys may hold many.
type pair struct {
	own, other string // the keys
	all        watch
	of         waiter // of the watch; it has the watch's told alone
	first      int64  // revision of the entry for which it was set up; gone lacks deletes from before the two were a pair

	// Guarded by the stream's mu.
	gone    map[string]int64 // the last revision at which a key of the two was deleted, since the pair is one
	waits   bool
	crowded bool // a third entry was seen
}

// keep has the watch of w go on as a pair's, if it is a watch on two entries that know turns. The caller holds mu.
func (on *stream) keep(w *waiter) bool {
	if len(w.list) != 1 || w.missing > 0 || w.err != nil || on.watches[w.list[0].id] != &w.list[0] {
		return false
	}
	was := &w.list[0]
	if was.self == nil || plain(*was.self) || plain(was.targets[0].Entry) {
		return false
	}
	p := &pair{own: was.self.ID, other: was.targets[0].Entry.ID, all: *was, gone: map[string]int64{}, first: was.self.Revision}
	p.all.of, p.all.pair, p.all.self, p.all.targets = &p.of, p, nil, nil
	p.of.since, p.of.news = w.since, make(chan struct{}, 1)
	if on.pairs == nil {
		on.pairs = map[string]*pair{}
	}
	on.part(on.pairs[p.own])
	for _, idle := range on.pairs {
		if len(on.pairs) < mostPairs {
			break
		}
		if !idle.waits {
			on.part(idle)
		}
	}
	if len(on.pairs) == mostPairs {
		return false
	}
	on.pairs[p.own], on.watches[p.all.id] = p, &p.all
	return true
}

// part ends a pair, if there is one. The caller holds mu.
func (on *stream) part(p *pair) {
	if p != nil && on.pairs[p.own] == p {
		delete(on.pairs, p.own)
		on.cancel(&p.all)
	}
}

// pairOf returns the pair of e and the target for a wait that then begins, if there is one and it was there before e
// joined. That its watch was on at an earlier revision does not say so: on a member that is behind it may have been set
// up for e itself.
func (s *session) pairOf(e *driver.Entry, t *driver.Target) (*stream, *pair) {
	on := s.current()
	on.mu.Lock()
	defer on.mu.Unlock()
	p := on.pairs[e.ID]
	if p == nil || on.life.Err() != nil || p.waits || p.other != t.Entry.ID || p.of.since >= e.Revision || p.first >= e.Revision {
		return nil, nil
	}
	p.waits = true
	on.waiters++
	return on, p
}

// awaitOther waits until the other of a pair has gone. That proves that e is at the head of the queue, unless e has
// gone, too: no other was between them, and e was there when all that the watch has told was done.
func (s *session) awaitOther(
	ctx context.Context, on *stream, p *pair, e *driver.Entry, t *driver.Target, stands func(),
) (*driver.View, error) {
	defer on.unpair(p)
	stands()
	for {
		on.mu.Lock()
		own, other, err := p.gone[p.own], p.gone[p.other], p.of.err
		on.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case own > e.Revision:
			return nil, nil //nolint:nilnil // no error, and no proof
		case other > t.Entry.Revision: // else it was an entry that had the key before
			return s.spare.proved(&driver.View{Self: *e, All: true}, other), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-on.life.Done():
			return nil, context.Cause(on.life)
		case <-p.of.news:
		}
	}
}

// unpair ends a wait. The pair stays, unless there are more.
func (on *stream) unpair(p *pair) {
	on.mu.Lock()
	defer on.mu.Unlock()
	on.waiters--
	p.waits = false
	if p.crowded {
		on.part(p)
	}
}

// crowd ends the pair of an entry that has joined behind several.
func (s *session) crowd(e driver.Entry) {
	on := s.current()
	on.mu.Lock()
	defer on.mu.Unlock()
	on.part(on.pairs[e.ID])
}

// hear takes a message for the watch of a pair. The caller holds the stream's mu.
func (p *pair) hear(s *session, on *stream, resp *pb.WatchResponse) error {
	if err := s.broken(resp); err != nil {
		p.of.err = err
		on.part(p)
	}
	for _, event := range resp.Events {
		switch key := string(event.Kv.Key); {
		case event.Type != mvccpb.DELETE:
		case key == p.own, key == p.other:
			p.gone[key] = event.Kv.ModRevision
		default:
			p.crowded = true
		}
	}
	if p.crowded && !p.waits {
		on.part(p)
	}
	signal(p.of.news)
	return p.of.err
}
