package zk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
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
// long queue instead of one for each entry that joins: a thousand answers of a megabyte each would hold up the renewal
// of the session behind them.
//
// No caller gets an answer that is older than its call, which is what a View has to be. A caller that comes while a
// read is on its way waits for the read after it. A read that has set a watch is kept until that fires, for it tells of
// all that has changed since.
type read struct {
	call
	at    spot
	fired chan struct{} // closed when the watch that the request has set has fired
	event int32         // with which it fired; to be read once it has
	by    *link         // the connection on which that came
	then  *listing      // is made when it fires, or nil; the session's mu guards it until then

	// The session's mu guards these.
	next    *read              // for callers that asked after this one was sent, or nil
	callers int                // so many have not given up
	abandon context.CancelFunc // nil unless the request had to wait to be sent

	mu   sync.Mutex
	seen *queue // the names as entries, for the kind of entry that has looked last
}

// children reads the names in a queue. The answer is not older than the call.
func (s *session) children(ctx context.Context, path string) (*read, error) {
	return s.read(ctx, spot{opGetChildren, path, false})
}

// node reads a node. The answer is not older than the call.
func (s *session) node(ctx context.Context, path string) (*read, error) {
	return s.read(ctx, spot{opGetData, path, false})
}

// entry reads the node of an entry, and returns ErrGone if it is another entry's. Where an ACL hides what the node
// says, whose it is can be seen all the same: ZooKeeper shows the stat of any node to everybody.
func (s *session) entry(ctx context.Context, e *driver.Entry) (*read, error) {
	r, err := s.node(ctx, e.ID)
	seen := err
	if errors.Is(err, client.ErrNoAuth) {
		r, seen = s.read(ctx, spot{opExists, e.ID, false})
	}
	if seen == nil && (r.at.op == opExists && r.stat.created == 0 || !s.is(e, &r.stat)) {
		err = driver.ErrGone
	}
	return r, err
}

// is reports whether a node with that stat, at the path of an entry, is the entry's. Names are given once, but not to
// those who copy a name: any client that may write to a queue can delete a node and make another under its name, in
// one transaction. ZooKeeper itself says which session has made a node, and in which transaction. A reader's node that
// has taken the place of a writer's was made later than its entry, by the same session.
func (s *session) is(e *driver.Entry, n *stat) bool {
	switch {
	case strings.HasPrefix(nameOf(e.ID), s.mark):
		if n.owner != s.wire.id.Load() {
			s.noteCopied(e.ID)
			return false
		}
		return true
	case e.Session != "" && e.Session != shownSession(n.owner):
		return false
	default:
		return e.Revision == 0 || e.Kind == driver.Read || e.Revision == n.created
	}
}

// noteCopied notes that the node of an own entry was seen to be another session's.
func (s *session) noteCopied(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copied[path] = true
}

// wasCopied reports whether the node of an own entry was seen to be another session's. The entry does not come back:
// the names in a queue, which say nothing of sessions, are not evidence of it any more.
func (s *session) wasCopied(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copied[path]
}

// read reads a spot, unless ctx has ended: a caller that has given up before asks for nothing.
func (s *session) read(ctx context.Context, at spot) (*read, error) {
	if ctx.Err() != nil {
		return nil, s.unanswered(ctx)
	}
	return s.await(ctx, s.begin(at))
}

// begin joins a read of a spot, or begins one, which is sent when it is awaited.
func (s *session) begin(at spot) *read {
	s.mu.Lock()
	defer s.mu.Unlock()
	under := s.reads[at]
	if under != nil && (at.watch || under.next != nil) {
		under = cmp.Or(under.next, under) // a read that is watched has no next
		under.callers++
		return under
	}
	r := &read{call: *newCall(append(newFrame(at.op).text(at.path), 0)), at: at, callers: 1}
	r.read = r
	if at.watch {
		r.frame[len(r.frame)-1], r.fired = 1, make(chan struct{})
	}
	if under != nil {
		under.next = r
	} else {
		s.reads[at] = r
		s.start(r)
	}
	return r
}

// start puts a read on its way. If that has to wait, it does so in a goroutine that Drop waits for. There is one for a
// spot at most, and it ends when all callers have given up. The caller holds mu.
func (s *session) start(r *read) {
	if s.dispatch(&r.call) {
		return
	}
	if s.wire.life.Err() != nil {
		s.fail(r)
		return
	}
	ctx, cancel := context.WithCancel(s.wire.life)
	r.abandon = cancel
	s.waiting.Go(func() {
		defer cancel()
		if s.send(ctx, &r.call) == nil {
			s.flush()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.wire.life.Err() != nil:
			s.fail(r)
		case r.callers > 0: // one has come since
			s.proceed(r)
		default:
			s.after(r)
		}
	})
}

// dispatch puts a call on its way if that need not wait, and reports whether it has. The caller holds mu.
func (s *session) dispatch(c *call) bool {
	select {
	case s.slots <- struct{}{}:
		if s.on != nil && s.on.add(c) {
			return true
		}
		<-s.slots
	default:
	}
	return false
}

// leave notes that a caller of reads has given up. A read that is not sent yet is not sent any more if that was its
// last caller: while there is no connection, there may be any number of them.
func (s *session) leave(reads ...*read) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reads {
		if r.callers--; r.callers == 0 && r.abandon != nil {
			r.abandon()
		}
	}
}

// fail ends reads that will not be sent, because the session is over. The caller holds mu.
func (s *session) fail(r *read) {
	for delete(s.reads, r.at); r != nil; r = r.next {
		r.err = context.Cause(s.wire.life)
		close(r.done)
	}
}

// follow makes room for the next read of a spot, once one was answered. It keeps a read that has set a watch.
func (s *session) follow(r *read) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.next != nil || !r.at.watch || r.err != nil {
		s.after(r)
	}
}

// after puts the next read of a spot on its way, if there are callers that want it. The caller holds mu.
func (s *session) after(r *read) {
	if r.next == nil || r.next.callers == 0 {
		delete(s.reads, r.at)
		return
	}
	s.reads[r.at] = r.next
	s.proceed(r.next)
}

// proceed is start where no caller flushes.
func (s *session) proceed(r *read) {
	if s.start(r); s.on != nil {
		s.on.flush(0)
	}
}

// await sends the reads that were begun, and returns this one when it was answered.
func (s *session) await(ctx context.Context, r *read) (*read, error) {
	s.flush()
	if err := s.wait(ctx, &r.call); err != nil {
		if !happened(r.done) {
			s.leave(r)
		}
		return nil, err
	}
	return r, nil
}

// fire ends the reads whose watch an event is of.
func (s *session) fire(l *link, event int32, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range firing[event] {
		if r := s.reads[spot{op, path, true}]; r != nil && happened(r.done) {
			r.event, r.by = event, l
			s.wake(r)
		}
	}
}

// wake ends a read whose watch has fired, and puts on its way what follows it. A listing is not made, and shows
// nothing, where it would have to wait or could not prove anything, and where a crowd has a shorter way: the caller
// asks Ahead. The caller holds mu.
func (s *session) wake(r *read) {
	delete(s.reads, r.at)
	close(r.fired)
	if t := r.then; t != nil && (s.crowds[t.queue] != nil || s.wire.unproved() || !s.dispatch(&t.call)) {
		close(t.done)
	}
}

// firing has the requests whose watches fire with an event.
var firing = map[int32][]int32{
	1:            {opExists}, // the node was made
	eventDeleted: {opGetData, opExists, opGetChildren},
	3:            {opGetData, opExists}, // its data was written
	4:            {opGetChildren},       // a child was made or deleted
}

// restore sets the watches of reads again, on a new link. The server lets those fire at once whose nodes have changed
// after the zxid that it is told. That may be before they were set the first time, which does no harm: an event is a
// hint. A server refuses a request of 1 MiB. The caller holds mu.
func (s *session) restore(l *link) {
	var standing []spot
	for at, r := range s.reads {
		if at.watch && happened(r.done) {
			standing = append(standing, at)
		}
	}
	for part := range slices.Chunk(standing, 250) { // of 2 KiB and a name each, at most
		p := newFrame(opSetWatches).long(s.wire.told)
		for _, op := range firing[eventDeleted] {
			of := slices.DeleteFunc(slices.Clone(part), func(at spot) bool { return at.op != op })
			p = p.number(int32(len(of)))
			for _, at := range of {
				p = p.text(at.path)
			}
		}
		l.add(urgent(p))
		l.restoring++
	}
	s.wire.watched = l.restoring == 0
}

// wakeOld ends the reads whose watches should have been set again on a link, because the server has refused that: no
// event would come of them. It proves nothing, so the callers look.
func (s *session) wakeOld(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, r := range s.reads {
		if at.watch && happened(r.done) && r.link != l {
			s.wake(r)
		}
	}
}

// queue returns the children as a queue of that name, whose node is path, as an entry of a kind sees them. They are
// parsed and sorted once for all callers of a kind, and mostly there is one kind.
func (r *read) queue(name, path string, kind driver.Kind) *queue {
	if kind == driver.Read {
		kind = driver.Write // they stand in one order
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen != nil && r.seen.kind == kind {
		return r.seen
	}
	q := &queue{name: name, path: path, kind: kind, nodes: arrange(r.names, kind)}
	// A node with a higher order is the node of another queue, most likely.
	q.tail = sort.Search(len(q.nodes), func(i int) bool { return q.nodes[i].order > lastSequence })
	r.seen = q
	return q
}
