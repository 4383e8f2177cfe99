package etcd

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// A waiter is one call of Watch. The stream that its watches are on changes it in place, and keeps nothing else for it.
type waiter struct {
	list   []watch
	rest   time.Duration
	news   chan struct{} // has a value when something below has changed
	unpump func()        // ends what runs for it where the client has a Watcher of its own kind; else nil

	// Guarded by the stream's mu.
	left bool
	told
}

// told is what the server has told of the watches of a waiter.
type told struct {
	missing int          // so many are not set up
	since   int64        // the highest revision at which one was set up: all of them tell whatever happens after that
	moved   bool         // a target may have moved
	proof   *driver.View // what that proves, if none had moved at since or later
	head    int64        // the revision from which on it is so
	err     error        // one has ended
}

// A watch is what one watch of the server is for: one target, or several entries of a queue, nearest first.
type watch struct {
	key, end string // of the keys; end is empty for one
	ends     bool   // only ends of keys are told
	targets  []driver.Target
	self     *driver.Entry // the second of two targets, if the first was alone ahead of it; else nil
	of       *waiter
	hall     *hall // whose watch it is; nil for a waiter's
	pair     *pair // the same
	id       int64 // guarded by the stream's mu
}

// Watch watches the keys of the targets: a single one by itself, several entries with one watch on the range in which
// they lie. It stands when all of its watches do, and ends with the first of them.
//
// An entry that is alone ahead of e is watched together with e, which makes a proof of its end.
//
// A watch that begins at a revision in the past would be served late: the server sends such ones their events every 100
// milliseconds. So it begins now. One read closes the gap: if a key is gone by then, or was changed, there is nothing
// to wait for; if it goes later, the watch tells, also if it runs on another member than the member that answered the
// read. That is so if the read is of the revision that the answer to the watch has, or a later one, for a watch tells
// all that comes after that revision. So the read need not wait for that answer, and is made at the same time. If it
// turns out to be older, as it can be from a member that is behind, it is made again. Where a watch may rest, the read
// is made after that.
//
// Of an entry and the entry that is alone ahead of it, that read tells at one revision whether both are there. From
// then on all ends of both come in their order, and ends of one revision together. So the end of the entry ahead proves
// that the other is at the head of the queue, unless its own end came before or comes with it. Without such a read an
// event proves nothing: the other may have gone before the watch was on.
func (s *session) Watch(ctx context.Context, e driver.Entry, targets []driver.Target, stands func()) (*driver.View, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	if targets[0].What == driver.Turn {
		return s.awaitTurn(ctx, &e, stands)
	}
	if alone(&e, targets) {
		if on, p := s.pairOf(&e, &targets[0]); p != nil {
			return s.awaitOther(ctx, on, p, &e, &targets[0], stands)
		}
	}
	own := e
	return s.awaitMove(ctx, &own, targets, stands)
}

// alone reports whether e waits for the end of an entry that is alone ahead of it.
func alone(e *driver.Entry, targets []driver.Target) bool {
	return len(targets) == 1 && targets[0].Alone && targets[0].What == driver.Gone && e.ID != ""
}

// awaitMove is Watch for all that is not a turn.
func (s *session) awaitMove(ctx context.Context, e *driver.Entry, targets []driver.Target, stands func()) (*driver.View, error) {
	w := newWaiter(e, targets)
	w.rest = s.rest(e, targets)
	on := s.begin(w)
	defer on.end(w)
	var rested <-chan time.Time
	seen, stood := int64(0), false // the revision at which no target had moved
	for look := w.rest == 0; ; {
		if look {
			proof, at, over, err := s.examine(ctx, on, w)
			if over {
				return proof, err
			}
			look, rested, seen = false, nil, at
		}
		switch is := on.told(w); {
		case is.err != nil:
			return nil, is.err
		case is.moved && seen < is.since:
			return nil, nil //nolint:nilnil // no error, and no proof
		case is.moved:
			return s.spare.proved(is.proof, is.head), nil
		case is.missing > 0 || stood:
		case seen >= is.since:
			stood = true
			stands()
		case rested == nil:
			rested = time.After(w.rest)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-on.life.Done():
			return nil, context.Cause(on.life)
		case <-rested:
			look = true
		case <-w.news:
		}
	}
}

// examine looks for the targets. It returns the revision at which none had moved, unless the wait is over. The stack
// that it needs is not needed while e waits.
//
//go:noinline
func (s *session) examine(ctx context.Context, on *stream, w *waiter) (proof *driver.View, at int64, over bool, err error) {
	standing := on.told(w).missing == 0
	woken, proof, at, err := s.now(ctx, on, w)
	if err != nil || woken {
		if is := on.told(w); is.proof != nil {
			at = is.head
		}
		return s.spare.proved(proof, at), 0, true, err
	}
	if standing {
		at = math.MaxInt64 // whatever the answers have said
	}
	return nil, at, false, nil
}

// newWaiter returns the waiter for targets, on whose behalf e waits.
func newWaiter(e *driver.Entry, targets []driver.Target) *waiter {
	w := &waiter{news: make(chan struct{}, 1)}
	if alone(e, targets) {
		w.list = watches([]driver.Target{targets[0], {Entry: *e}})
		w.list[0].self = e
	} else {
		w.list = watches(targets)
	}
	for i := range w.list {
		w.list[i].of = w
	}
	return w
}

const (
	// A watch rests for restEach for each entry ahead of the entries that are waited for, if restFrom are. That is mostly
	// longer than each of them holds. It rests for no longer than restMost, which is shorter than a watch has time to
	// stand.
	restEach = 15 * time.Millisecond
	restFrom = 3
	restMost = 500 * time.Millisecond
)

// rest returns how long a watch on behalf of e may rest between its request and its look. The server tells most of what
// changes in between, and the look is saved: the nearest target can have gone before the watch was on only if its
// client gave up, or if all that were ahead of it came and went. If it has, e is late by the rest.
//
// Only entries ahead of e count. Where e waits for the end of one behind it, every moment does.
func (s *session) rest(e *driver.Entry, targets []driver.Target) time.Duration {
	if e.ID == "" {
		return 0
	}
	ahead, entries := 0, 0
	for i := range targets { // nearest first
		t := &targets[i]
		if (t.What == driver.Gone || t.What == driver.Changed) && t.Entry.Revision < e.Revision {
			ahead = t.Entry.Ahead
			entries++
		}
	}
	if entries > 1 {
		ahead -= entries // so many may hold beside one another
	}
	if ahead < restFrom {
		return 0
	}
	ttl, _ := s.Granted() // a renewal may change it
	return min(time.Duration(ahead)*restEach, restMost, ttl/12)
}

// watches returns the watches for the targets. Words for an entry are a key of their own, so the end of the entry takes
// a second watch.
//
// The server filters events: where only ends of entries are waited for, the waiters of a queue are not sent each that
// joins.
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
		w.key = prefix(entries[0].Entry.Queue)
		w.end = clientv3.GetPrefixRangeEnd(w.key)
	case len(entries) > 1:
		for _, t := range entries {
			w.key, w.end = min(w.key, t.Entry.ID), max(w.end, t.Entry.ID+"\x00") // to the last and with it
		}
	}
	w.ends = !slices.ContainsFunc(entries, func(t driver.Target) bool { return t.What != driver.Gone })
	return append(list, w)
}

// is reports whether a key that w shows is the key of a target; of an entry that is waited for, if it is to join.
func (w *watch) is(t driver.Target, kv *mvccpb.KeyValue) bool {
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

// request returns what sets w up. It asks for no fragments: of those the events of one revision would not come
// together.
func (w *watch) request() *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.key), RangeEnd: []byte(w.end), WatchId: w.id}
	switch {
	case w.hall != nil:
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}
	case w.ends:
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// A moves reports whether a target has moved, as far as was seen.
type moves func(t driver.Target) bool

// any reports whether a target of w has moved.
func (w *watch) any(m moves) bool { return slices.ContainsFunc(w.targets, m) }

// proof returns a view with nothing ahead of w.self, if that has not moved, and what was alone ahead of it has.
func (w *watch) proof(m moves) *driver.View {
	if w.self == nil || m == nil || !m(w.targets[0]) || m(w.targets[1]) {
		return nil
	}
	return &driver.View{Self: *w.self, All: true}
}

// seen returns what events show. A watch on a member that is behind tells also what was before a target: the end of an
// entry that had its key earlier, say.
func (w *watch) seen(events []*clientv3.Event) moves {
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

// look makes a read of what is watched. It ends with the stream: where that was given up, another member is to be
// asked.
func (s *session) look(ctx context.Context, on *stream, read func(ctx context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(on.life, end)()
	var err error
	if take(ctx, s.looks) == nil {
		err = read(ctx)
		<-s.looks
	} else {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("looking at what is watched: %w", cmp.Or(context.Cause(on.life), err))
	}
	return nil
}

// pages reads what w watches at one revision. The reads are full ones: only those show the keys' leases.
func (s *session) pages(ctx context.Context, w *waiter) (pages []*pb.RangeResponse, at int64, err error) {
	reads := make([]clientv3.Op, len(w.list))
	for i := range w.list {
		reads[i] = clientv3.OpGet(w.list[i].key, clientv3.WithRange(w.list[i].end))
	}
	if len(reads) == 1 {
		resp, err := s.do(ctx, reads[0])
		page := (*pb.RangeResponse)(resp.Get())
		return []*pb.RangeResponse{page}, page.GetHeader().GetRevision(), err
	}
	resp, err := s.commit(ctx, nil, nil, reads...)
	for _, r := range resp.GetResponses() {
		pages = append(pages, r.GetResponseRange())
	}
	return pages, resp.GetHeader().GetRevision(), err
}

// now reads what w watches, and reports whether a target has moved at the revision at which it was read.
func (s *session) now(ctx context.Context, on *stream, w *waiter) (woken bool, proof *driver.View, at int64, err error) {
	var pages []*pb.RangeResponse
	err = s.look(ctx, on, func(ctx context.Context) (err error) {
		pages, at, err = s.pages(ctx, w)
		return err
	})
	if err != nil {
		return false, nil, 0, err
	}
	for i := range w.list {
		x := &w.list[i]
		key := func(t driver.Target) *mvccpb.KeyValue {
			if j := slices.IndexFunc(pages[i].Kvs, func(kv *mvccpb.KeyValue) bool { return x.is(t, kv) }); j >= 0 {
				return pages[i].Kvs[j]
			}
			return nil
		}
		m := func(t driver.Target) bool { return moved(t, key(t)) }
		if x.any(m) {
			return true, x.proof(m), at, nil
		}
		for _, t := range x.targets {
			if (t.What == driver.Gone || t.What == driver.Changed) && key(t).Lease == 0 {
				return false, nil, 0, stray(t.Entry) // it will block for ever
			}
		}
	}
	return false, nil, at, nil
}
