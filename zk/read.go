package zk

import (
	"context"
	"maps"
	"slices"
	"sort"
	"sync"

	client "github.com/go-zookeeper/zk"

	"github.com/farsync/farsync/driver"
)

// A spot is what a read is of: a kind of request on a path, which sets a watch or not.
type spot struct {
	op    int32
	path  string
	watch bool
}

// A read is a request and its answer, for all callers that asked before it was sent. In a crowd that is one read of a
// long queue instead of one for each entry that joins: a thousand answers of a megabyte each would hold up the renewal of
// the session behind them.
//
// No caller gets an answer that is older than its call, which is what a View has to be. A caller that comes while a read
// is on its way waits for the one after it. A read that has set a watch is kept until that fires, for it tells of all that has
// changed since. The library cannot take a watch back.
type read struct {
	call
	data    []byte // of a node
	stat    client.Stat
	names   []string            // of its children
	counted bool                // among them is the one below which Curator's semaphores have their permits
	fired   <-chan client.Event // of a watch that the request has set: it gets an event and is closed

	next *read // for callers that asked after this one was sent, or nil; the session's mu guards it

	mu     sync.Mutex
	queues []*queue // the names as entries, for each kind of entry that has looked
}

// children reads the names in a queue. The answer is not older than the call.
func (s *session) children(ctx context.Context, path string) (*read, error) {
	return s.await(ctx, s.begin(spot{opGetChildren, path, false}))
}

// node reads a node. The answer is not older than the call.
func (s *session) node(ctx context.Context, path string) (*read, error) {
	return s.await(ctx, s.begin(spot{opGetData, path, false}))
}

// begin joins a read of a spot, or begins one.
func (s *session) begin(at spot) *read {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Watches that have fired are left to the next sweep. It doubles its distance, so that it costs each read a constant.
	if len(s.reads) >= s.sweepAt {
		maps.DeleteFunc(s.reads, func(at spot, r *read) bool { return at.watch && r.over() })
		s.sweepAt = 2*len(s.reads) + 64
	}
	r := &read{call: *newCall()}
	switch under := s.reads[at]; {
	case s.ending:
		close(r.done)
	case under == nil || at.watch && under.over():
		s.reads[at] = r
		s.calls.Add(1)
		go s.serve(at, r)
	case at.watch:
		r = under
	case under.next == nil:
		under.next = r
	default:
		r = under.next
	}
	return r
}

// over reports whether the watch of a read has fired, or was never set.
func (r *read) over() bool { return happened(r.done) && (r.err != nil || happened(r.fired)) }

// await returns the read when it was answered.
func (s *session) await(ctx context.Context, r *read) (*read, error) {
	if err := s.wait(ctx, &r.call); err != nil {
		return nil, err
	}
	return r, nil
}

// serve makes one read after the other of a spot, until none has been asked for. It runs in a goroutine that Drop waits
// for; there is one for a spot at most, however many callers have given up.
func (s *session) serve(at spot, r *read) {
	defer s.calls.Done()
	for r != nil {
		s.fetch(at, r)
		s.mu.Lock()
		if r = r.next; r != nil {
			s.reads[at] = r
		} else if !at.watch {
			delete(s.reads, at)
		}
		s.mu.Unlock()
	}
}

// fetch makes the request of a read.
func (s *session) fetch(at spot, r *read) {
	defer close(r.done)
	if r.err = s.take(s.wire.life, s.slots); r.err != nil {
		return
	}
	defer func() { <-s.slots }()
	var stat *client.Stat
	switch {
	case at.op == opExists:
		_, stat, r.fired, r.err = s.conn.ExistsW(at.path)
	case at.op == opGetChildren && at.watch:
		r.names, stat, r.fired, r.err = s.conn.ChildrenW(at.path)
	case at.op == opGetChildren:
		r.names, stat, r.err = s.conn.Children(at.path)
	case at.watch:
		r.data, stat, r.fired, r.err = s.conn.GetW(at.path)
	default:
		r.data, stat, r.err = s.conn.Get(at.path)
	}
	if r.err = answer(r.err); r.err == nil {
		r.stat = *stat
		r.counted = slices.Contains(r.names, "leases")
	}
}

// queue returns the children as a queue of that name, whose node is path, as an entry of a kind sees them. They are parsed
// and sorted once for all callers.
func (r *read) queue(name, path string, kind driver.Kind) *queue {
	if kind == driver.Read {
		kind = driver.Write // they stand in one order
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.queues {
		if q.kind == kind {
			return q
		}
	}
	q := &queue{name: name, path: path, kind: kind, nodes: arrange(r.names, kind)}
	// What is higher is the node of another queue, most likely.
	q.tail = sort.Search(len(q.nodes), func(i int) bool { return q.nodes[i].order > lastSequence })
	r.queues = append(r.queues, q)
	return q
}
