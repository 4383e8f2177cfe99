package sqlstore

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Joins are the joins of a Store that are under way. Joins of one queue take turns at the server, where each that waits has a connection. They leave
// one connection to calls that wait for nobody: a release would stand behind joins that cannot go on before it. And a Store sends one join of a queue
// at a time, for if many Stores send all that they can, the line at the server is longer than a join stays in it.
//
// Where it is the way to the server that takes the time, and not the line, it sends several: each takes a round trip, and they do so side by
// side. The line is told from the way by the time that the last join took. Beside the shortest time that any join of the Store took, which
// is a round trip, a line shows. That time is taken anew now and then, for after a failover the way may be a longer one.
type Joins struct {
	most   int           // of one queue
	places chan struct{} // has a value for each join that is sent

	mu       sync.Mutex
	of       map[string]*turns
	shortest time.Duration // that a join took since then
	since    time.Time
}

// wayFor is for how long the way to the server counts as it was measured.
const wayFor = time.Minute

// turns are the joins of one queue.
type turns struct {
	taken   int
	noLine  bool // the last join met no line
	waiting list.List
}

// NewJoins returns the joins of a Store that has none under way, and sends at most so many of one queue at a time, and so many of all.
func NewJoins(ofQueue, all int) *Joins {
	return &Joins{most: ofQueue, places: make(chan struct{}, all), of: map[string]*turns{}}
}

// Do calls join once it is its turn in the queue, unless ctx ends before.
func (j *Joins) Do(ctx context.Context, queue string, join func() error) (err error) {
	of, err := j.take(ctx, queue)
	if err != nil {
		return err
	}
	var took time.Duration // 0 if the join fails: that says nothing of the time that one takes
	defer func() { j.give(queue, of, took) }()
	select {
	case j.places <- struct{}{}:
		defer func() { <-j.places }()
	case <-ctx.Done():
		return NotDone(ctx)
	}
	began := time.Now()
	if err = join(); err == nil {
		took = time.Since(began)
	}
	return err
}

// take waits for a turn in the queue until ctx ends.
func (j *Joins) take(ctx context.Context, queue string) (*turns, error) {
	turn := make(chan struct{})
	j.mu.Lock()
	of := j.of[queue]
	if of == nil {
		of = new(turns)
		j.of[queue] = of
	}
	at := of.waiting.PushBack(turn)
	j.pass(queue, of)
	j.mu.Unlock()
	select {
	case <-turn:
		return of, nil
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-turn: // in the same moment
		of.taken--
	default:
		of.waiting.Remove(at)
	}
	j.pass(queue, of)
	return nil, NotDone(ctx)
}

// give passes a turn on, after a join that took so long.
func (j *Joins) give(queue string, of *turns, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	of.taken--
	if took > 0 {
		if now := time.Now(); now.Sub(j.since) > wayFor {
			j.shortest, j.since = took, now
		}
		j.shortest = min(j.shortest, took)
		of.noLine = took <= 2*j.shortest
	}
	j.pass(queue, of)
}

// pass gives turns to those who are next, and forgets the queue once nobody joins it.
func (j *Joins) pass(queue string, of *turns) {
	room := 1
	if of.noLine {
		room = j.most
	}
	for of.taken < room && of.waiting.Len() > 0 {
		of.taken++
		close(of.waiting.Remove(of.waiting.Front()).(chan struct{}))
	}
	if of.taken == 0 && of.waiting.Len() == 0 {
		delete(j.of, queue)
	}
}
