package etcd

import (
	"cmp"
	"context"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// mostHalls is how many halls a stream keeps in which none waits.
const mostHalls = 16

// A hall is where the entries of a session await their turns in one queue: one watch on all of them, which stays when
// none waits. So an entry that joins while it is on is told its turn by an event, and neither sets up a watch nor
// reads.
//
// A hall is of one stream. When that breaks the turns are read, once the next watch is on.
type hall struct {
	queue string
	all   watch
	of    waiter // of the watch; it has the watch's told alone

	// Guarded by the stream's mu.
	waiters map[string]*waiter          // by the key of the turn
	came    map[string]*mvccpb.KeyValue // turns that came, of entries that have not left since
}

func newHall(queue string, lease clientv3.LeaseID) *hall {
	h := &hall{queue: queue, waiters: map[string]*waiter{}, came: map[string]*mvccpb.KeyValue{}}
	key := prefix(queue+turnSuffix) + turnsOf(lease)
	h.all = watch{key: key, end: clientv3.GetPrefixRangeEnd(key), of: &h.of, hall: h}
	return h
}

// A seat is where an entry awaits its turn.
type seat struct {
	waiter
	entry driver.Entry
	key   string // of the turn
	on    *stream
	hall  *hall
}

// awaitTurn waits for the turn of e, which proves that e is at the head of the queue: a turn is put for an entry that
// exists, when nothing is ahead of it.
//
// The watch tells all that comes after the revision at which it was set up. If the entry was made later, it tells its
// turn. Else the turns are read once, when the watch is on.
func (s *session) awaitTurn(ctx context.Context, e *driver.Entry, stands func()) (*driver.View, error) {
	at := s.enter(e)
	defer at.exit()
	for stood := false; ; {
		proof, ready, err := s.turnAt(ctx, at, stood)
		if proof != nil || err != nil {
			return proof, err
		}
		if ready && !stood {
			stood = true
			stands()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-at.on.life.Done():
			return nil, context.Cause(at.on.life)
		case <-at.news:
		}
	}
}

// turnAt returns what the turn of the entry proves, if the turn has come, and whether the watch will tell it otherwise.
// The stack that turnAt needs is not needed while the entry waits.
//
//go:noinline
func (s *session) turnAt(ctx context.Context, at *seat, stood bool) (proof *driver.View, ready bool, err error) {
	e := &at.entry
	is, turn := at.told()
	if is.err != nil {
		return nil, false, is.err
	}
	if turn.GetModRevision() <= e.Revision { // none, or one for an entry that had the key before
		switch {
		case is.missing > 0:
			return nil, false, nil
		case stood, is.since < e.Revision:
			return nil, true, nil
		}
		if turn, err = s.turnNow(ctx, at); err != nil || turn.GetModRevision() <= e.Revision {
			return nil, err == nil, err
		}
	}
	head, behind := parseTurn(e.Queue, turn)
	s.spare.turn(*e, head, behind)
	return &driver.View{Self: *e, All: true}, false, nil
}

// turnNow reads a turn.
func (s *session) turnNow(ctx context.Context, at *seat) (turn *mvccpb.KeyValue, err error) {
	err = s.look(ctx, at.on, func(ctx context.Context) error {
		resp, err := s.get(ctx, at.key)
		turn = first(resp.GetKvs())
		return err
	})
	return turn, err
}

// enter has e await its turn, in a new hall if there is none.
func (s *session) enter(e *driver.Entry) *seat {
	at := &seat{waiter: waiter{news: make(chan struct{}, 1)}, entry: *e, key: turnKey(*e)}
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.stream()
	on.mu.Lock()
	defer on.mu.Unlock()
	h := on.halls[e.Queue]
	if h == nil {
		h = newHall(e.Queue, s.lease)
		if on.halls == nil {
			on.halls = map[string]*hall{}
		}
		on.halls[e.Queue] = h
		s.open(on, &h.all)
	}
	on.waiters++
	h.waiters[at.key] = &at.waiter
	at.on, at.hall = on, h
	return at
}

// open has the watch of a hall set up. The caller holds both mus.
func (s *session) open(on *stream, w *watch) {
	w.of.missing++
	on.expect(1)
	if s.ended() == nil {
		s.set(on, w)
	}
}

// exit ends a wait. A hall that is empty stays if there are few, and if its watch is on.
func (at *seat) exit() {
	on, h := at.on, at.hall
	on.mu.Lock()
	defer on.mu.Unlock()
	on.waiters--
	delete(h.waiters, at.key)
	if on.halls[h.queue] == h && len(h.waiters) == 0 && (h.of.missing > 0 || len(on.halls) > mostHalls) {
		on.shut(h)
	}
}

// shut ends a hall and its watch. The caller holds mu.
func (on *stream) shut(h *hall) {
	on.cancel(&h.all)
	if on.halls[h.queue] == h {
		delete(on.halls, h.queue)
	}
	on.pending -= h.of.missing
	h.of.missing, h.of.left = 0, true
}

// told returns what the entry has been told, and its turn if that came. The turn stays: a wait that is repeated for the
// same entry, since its answer was lost, is told once more.
func (at *seat) told() (is told, turn *mvccpb.KeyValue) {
	at.on.mu.Lock()
	defer at.on.mu.Unlock()
	h := at.hall
	is, turn = at.waiter.told, h.came[at.key]
	is.missing, is.since = h.of.missing, h.of.since
	return is, turn
}

// forget drops the turn of an entry that is about to leave, if it came.
func (s *session) forget(e driver.Entry) {
	on := s.current()
	on.mu.Lock()
	defer on.mu.Unlock()
	if h := on.halls[e.Queue]; h != nil {
		delete(h.came, turnKey(e))
	}
}

// hear takes a message for the watch of a hall. The caller holds the stream's mu.
func (h *hall) hear(s *session, on *stream, resp *pb.WatchResponse) (err error) {
	switch err = s.broken(resp); {
	case err != nil:
		on.shut(h) // turns may have been missed: they are read when the next watch is on
	case resp.Created:
		on.pending--
		h.of.missing--
		h.of.since = max(h.of.since, cmp.Or(resp.Header.GetRevision(), math.MaxInt64))
	default:
		for _, event := range resp.Events {
			key := string(event.Kv.Key)
			h.came[key] = event.Kv
			if w := h.waiters[key]; w != nil {
				signal(w.news)
			}
		}
		return nil
	}
	for _, w := range h.waiters {
		w.err = err
		signal(w.news)
	}
	return err
}
