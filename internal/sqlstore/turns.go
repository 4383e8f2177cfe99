package sqlstore

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Turns are the joins of a session that are under way. Those that join the same queue take turns at the server, where each that waits has a
// connection. A Store that sends all that it can has its releases stand behind joins that cannot go on before them; and if many Stores do, the
// line at the server is longer than a join stays in it. So a Store sends one join of a queue at a time.
//
// Where it is the way to the server that takes the time, and not the line, it sends several: each takes a round trip, and they do so side by
// side. The line is told from the way by the time that the last join took. Beside the shortest time that any join of the session took, which
// is a round trip, a line shows.
type Turns struct {
	most int

	mu       sync.Mutex
	of       map[string]*turns
	shortest time.Duration // that a join took; 0 before the first
}

// turns are the joins of one queue.
type turns struct {
	underWay int
	noLine   bool // the last join met no line
	waiting  list.List
}

// NewTurns returns the turns of a session that has no join under way, and sends so many of one queue at a time at most.
func NewTurns(most int) *Turns { return &Turns{most: most, of: map[string]*turns{}} }

// Do calls join once it is its turn in the queue, unless ctx ends before.
func (t *Turns) Do(ctx context.Context, queue string, join func() error) (err error) {
	turn := make(chan struct{})
	t.mu.Lock()
	of := t.of[queue]
	if of == nil {
		of = new(turns)
		t.of[queue] = of
	}
	at := of.waiting.PushBack(turn)
	t.pass(queue, of)
	t.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
		if t.leave(queue, of, at, turn) {
			return NotDone(ctx)
		}
	}
	began, joined := time.Now(), false
	defer func() { t.done(queue, of, time.Since(began), joined) }()
	err = join()
	joined = err == nil
	return err
}

// leave takes a caller out of the line, unless he was given his turn meanwhile, and reports whether.
func (t *Turns) leave(queue string, of *turns, at *list.Element, turn <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-turn:
		return false
	default:
	}
	of.waiting.Remove(at)
	t.pass(queue, of)
	return true
}

// done passes the turn on. A join that has failed says nothing of the time that one takes.
func (t *Turns) done(queue string, of *turns, took time.Duration, joined bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.underWay--
	if joined {
		if t.shortest == 0 || took < t.shortest {
			t.shortest = took
		}
		of.noLine = took <= 2*t.shortest
	}
	t.pass(queue, of)
}

// pass gives turns to those who are next, and forgets the queue once nobody joins it.
func (t *Turns) pass(queue string, of *turns) {
	room := 1
	if of.noLine {
		room = t.most
	}
	for of.underWay < room && of.waiting.Len() > 0 {
		of.underWay++
		close(of.waiting.Remove(of.waiting.Front()).(chan struct{}))
	}
	if of.underWay == 0 && of.waiting.Len() == 0 {
		delete(t.of, queue)
	}
}
