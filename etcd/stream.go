package etcd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A stream carries the watches of a session. It is opened with the first of them, and kept until it breaks, or is given
// up, or the session ends: then all its watches end, and are set up on the next. A watch does not go on there by
// itself, for in between an event may be lost. One goroutine receives, and changes what a waiter looks at. Another
// sends, so that nothing waits with mu held where the server takes no more.
//
// The server answers the requests for watches in their order. It also takes IDs that are chosen here, so that no such
// request waits for the answer to another. A proxy of etcd's does neither, as the answer to the first shows: there one
// is made at a time.
//
// A stream may well be silent because nothing happens. So each renewal requests progress on it, which the server
// answers at once. The keepalive stream is another than this one, and may be with another member: a member that is
// stopped, or cut off without a word, is noticed by gRPC in 10 seconds or more, if at all.
type stream struct {
	number int             // of streams that were given up before
	life   context.Context // done when the stream is over or the session has ended, with the cause
	leave  context.CancelCauseFunc
	more   chan struct{} // has a value when there may be something to send

	mu      sync.Mutex
	last    int64            // the ID that was chosen last
	waiters int              // that have watches here. Invariant: 0 ≤ pending; waiters > 0 if pending > 0
	pending int              // watches of waiters that are not set up
	watches map[int64]*watch // that are set up, by ID
	halls   map[string]*hall // by queue; nil until there was one
	pairs   map[string]*pair // by the own key; nil until there was one
	out     []*pb.WatchRequest
	due     []*watch // whose requests are not answered, in their order
	sent    int      // of due, the requests that were sent. Invariant: 1 at most unless chosen
	chosen  bool     // the server has taken an ID that was chosen here
	member  string   // the address of the member, once the stream is open

	// Every message clears these.
	silent time.Time // since when, if any are pending: the first of them was begun then
	missed int       // requests for progress that were not answered
}

const (
	// mostMissed is how many requests for progress a stream may leave unanswered. A bound of one is not enough: a server
	// that is still bringing a watch up to date answers none.
	mostMissed = 2
	// mostVain is how many streams are given up while no such request was ever answered. etcd's own proxy answers none.
	mostVain = 2
	// mostIdle is how many watches for which nothing waits a stream may keep.
	mostIdle = 16
)

func newStream(life context.Context, number int) *stream {
	on := &stream{number: number, more: make(chan struct{}, 1)}
	on.life, on.leave = context.WithCancelCause(life)
	return on
}

// begin has the watches of w set up, on a new stream if the last is over.
func (s *session) begin(w *waiter) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	on := s.stream()
	on.mu.Lock()
	defer on.mu.Unlock()
	on.expect(len(w.list))
	on.waiters++
	w.missing = len(w.list)
	switch {
	case s.ended() != nil: // nothing is started any more
	case s.foreign:
		w.unpump = s.pump(on, w)
	default:
		for i := range w.list {
			s.set(on, &w.list[i])
		}
	}
	return on
}

// stream returns the stream for what begins now. The caller holds mu.
func (s *session) stream() *stream {
	if s.watching.life.Err() != nil {
		s.watching = newStream(s.life, s.watching.number)
	}
	return s.watching
}

// current returns the last stream, which may be over.
func (s *session) current() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watching
}

// expect notes that so many watches are about to be set up. The caller holds mu.
func (on *stream) expect(watches int) {
	if on.pending == 0 {
		on.silent = time.Now()
	}
	on.pending += watches
}

// set has w set up. The caller holds both mus, and the session has not ended.
func (s *session) set(on *stream, w *watch) {
	on.last++
	w.id = on.last
	on.due = append(on.due, w)
	on.queue(w.request())
	if on.watches == nil {
		on.watches = map[int64]*watch{}
		s.streams.Go(func() { s.serve(on) })
	}
}

// end cancels the watches of w. A watch that is not answered yet is cancelled when it is.
func (on *stream) end(w *waiter) {
	if w.unpump != nil {
		w.unpump()
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	w.left = true
	on.waiters--
	on.pending -= w.missing
	if on.keep(w) {
		return
	}
	for i := range w.list {
		on.cancel(&w.list[i])
	}
}

// told returns what w has been told.
func (on *stream) told(w *waiter) told {
	on.mu.Lock()
	defer on.mu.Unlock()
	return w.told
}

// cancel has w cancelled, if it is set up. The caller holds mu.
//
// Where what it waited for has gone, there is nothing to tell for the time being. The request then goes with the next
// that is sent, or when mostIdle wait, or the server tells something all the same, or at the next renewal. It would be
// a message for each contended lock.
func (on *stream) cancel(w *watch) {
	if on.watches[w.id] != w {
		return
	}
	delete(on.watches, w.id)
	on.out = append(on.out, &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: w.id},
	}})
	if !w.of.moved || w.end != "" || len(on.out) > mostIdle {
		signal(on.more)
	}
}

// queue has r sent. The caller holds mu.
func (on *stream) queue(r *pb.WatchRequest) {
	on.out = append(on.out, r)
	signal(on.more)
}

// signal leaves a value in c, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// serve opens the stream, and receives until it is over.
func (s *session) serve(on *stream) {
	var remote pb.Watch_WatchClient
	to, err := s.deal(func(r *request) (err error) {
		remote, err = pb.NewWatchClient(r).Watch(on.life, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32))
		return err
	})
	on.mu.Lock()
	on.member = address(to)
	on.mu.Unlock()
	var sending sync.WaitGroup
	if err == nil {
		sending.Go(func() { on.send(remote) })
	}
	for err == nil {
		var resp *pb.WatchResponse
		if resp, err = remote.Recv(); err == nil {
			err = s.hear(on, resp)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errWatchOver
	}
	on.leave(s.allowed(rpctypes.Error(err)))
	sending.Wait()
}

// send sends what there is to send. If that fails, it is over, and the goroutine that receives is told why.
func (on *stream) send(remote pb.Watch_WatchClient) {
	for {
		select {
		case <-on.life.Done():
			return
		case <-on.more:
		}
		for r := on.next(); r != nil; r = on.next() {
			if remote.Send(r) != nil {
				return
			}
		}
	}
}

// next returns the next request, or nil if there is none for now.
func (on *stream) next() *pb.WatchRequest {
	on.mu.Lock()
	defer on.mu.Unlock()
	if len(on.out) == 0 {
		return nil
	}
	if on.out[0].GetCreateRequest() != nil {
		if !on.chosen && on.sent > 0 {
			return nil
		}
		on.sent++
	}
	return pop(&on.out)
}

// pop removes the first of a list.
func pop[T any](list *[]*T) *T {
	first := (*list)[0]
	*list = slices.Delete(*list, 0, 1)
	return first
}

// hear finds what a message is for. An error means that the stream is of no more use.
func (s *session) hear(on *stream, resp *pb.WatchResponse) error {
	on.mu.Lock()
	defer on.mu.Unlock()
	w := on.watches[resp.WatchId]
	if resp.Created {
		if len(on.due) == 0 {
			return errWatchOver
		}
		on.sent--
		switch w = pop(&on.due); {
		case resp.Canceled: // it was refused, and has no ID
		case on.chosen && resp.WatchId != w.id:
			return errWatchOver
		default:
			on.chosen = resp.WatchId == w.id
			w.id = resp.WatchId
			on.watches[w.id] = w
		}
		signal(on.more)
	}
	if w == nil && len(resp.Events) > 0 {
		signal(on.more) // to have it cancelled
	}
	if w != nil && w.of.left { // before the answer
		on.cancel(w)
		w = nil
	}
	if resp.Canceled {
		delete(on.watches, resp.WatchId)
	}
	return s.note(on, w, resp)
}

// note tells the waiter of a message for its watch, or for none: a watch that was cancelled may still be told of. The
// caller holds the stream's mu.
//
// A stream keeps the credentials that it was opened with. When they are not valid any more it is left: the next has new
// ones.
func (s *session) note(on *stream, w *watch, resp *pb.WatchResponse) (stale error) {
	on.silent, on.missed = time.Time{}, 0
	if len(resp.Events) == 0 && !resp.Created && !resp.Canceled && resp.CompactRevision == 0 {
		s.progresses.Store(true)
	}
	if w == nil {
		return nil
	}
	switch {
	case w.hall != nil:
		return s.stale(w.hall.hear(s, on, resp))
	case w.pair != nil:
		return s.stale(w.pair.hear(s, on, resp))
	}
	switch of := w.of; {
	case resp.CompactRevision != 0:
		of.moved = true // events may have been missed
	case resp.Canceled:
		of.err = s.refusal(resp.CancelReason)
		stale = s.stale(of.err)
	case resp.Created:
		on.pending--
		of.missing--
		of.since = max(of.since, cmp.Or(resp.Header.GetRevision(), math.MaxInt64))
	case !of.moved:
		if seen := w.seen(resp.Events); w.any(seen) {
			of.moved, of.proof = true, w.proof(seen)
			of.head = resp.Events[len(resp.Events)-1].Kv.ModRevision
		}
	}
	signal(w.of.news)
	return stale
}

// stale returns err if it says that the credentials of a stream are not valid any more.
func (s *session) stale(err error) error {
	if errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision) || s.early(err) {
		return err
	}
	return nil
}

// broken returns why a message ends a watch that was to stay, or nil.
func (s *session) broken(resp *pb.WatchResponse) error {
	switch {
	case resp.Canceled:
		return s.refusal(resp.CancelReason)
	case resp.CompactRevision != 0:
		return errWatchOver
	default:
		return nil
	}
}

// refusal returns the error of a text with which the server ends a watch: the text of an error, or what gRPC prints of
// an error. As a text it would pass for trouble on the way, and the waiter would set the watch up again and again.
func (s *session) refusal(text string) error {
	if _, says, ok := strings.Cut(text, "desc = "); ok {
		text = says
	}
	if text == "" {
		return errWatchOver
	}
	return s.allowed(rpctypes.Error(status.Error(codes.Unknown, text)))
}

// probe has progress requested on the stream, or gives the stream up. A renewal that was answered calls it, so a
// session that is in trouble itself does not judge. The caller holds the session's mu.
func (s *session) probe() {
	on := s.watching
	on.mu.Lock()
	defer on.mu.Unlock()
	switch {
	case on.waiters == 0:
		on.missed = 0
		signal(on.more)
	case on.number >= mostVain && !s.progresses.Load():
	case on.missed == mostMissed: // counted also if the request was not sent: then the stream takes no more
		s.abandon()
	default:
		on.missed++
		on.queue(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
	}
}

// abandon gives the stream up. All its watches fail, and are set up again on the next, with another member if there is
// one. The caller holds both mus.
func (s *session) abandon() {
	if s.watching.member != "" {
		s.owing[s.watching.member] = true
	}
	s.watching.leave(errSilent)
	s.watching = newStream(s.life, s.watching.number+1)
}
