package sqlstore

import (
	"context"
	"sync"
	"time"
)

// Joins are the joins of a Store that are under way. Joins of one queue take turns at the server, where each join that waits has a connection. They
// leave a connection to calls that wait for nobody: a release would stand behind joins that cannot go on before it. And a Store sends one join of a
// queue at a time: if many Stores sent all that they can, the line at the server would be longer than a join stays in it.
//
// Where the way to the server takes the time, and not the line there, a Store sends several joins, which take their round trips side by side. The time
// that the last join took tells which it is. The shortest time that any join of the Store took is a round trip, and a join that took more than
// twice as long stood in a line. The shortest time is taken anew each minute, for after a failover the way may be a longer one.
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
	waiting fifo
}

// NewJoins returns the joins of a Store that sends at most so many joins of one queue at a time, and so many of all queues.
func NewJoins(ofQueue, all int) *Joins {
	return &Joins{most: ofQueue, places: make(chan struct{}, all), of: map[string]*turns{}}
}

// Do calls join once it is its turn in the queue, unless ctx ends before.
func (j *Joins) Do(ctx context.Context, queue string, join func() error) (err error) {
	of, err := j.take(ctx, queue)
	if err != nil {
		return err
	}
	var took time.Duration // 0 if the join fails: a failure says nothing of how long joins take
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
	j.mu.Lock()
	of := j.of[queue]
	if of == nil {
		of = new(turns)
		j.of[queue] = of
	}
	waits := of.waiting.enter()
	j.pass(queue, of)
	j.mu.Unlock()
	if waits.await(ctx) {
		return of, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if of.waiting.leave(waits) {
		of.taken--
	}
	j.pass(queue, of)
	return nil, NotDone(ctx)
}

// give passes a turn on, after a join that took so long, or 0 after a join that failed.
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

// pass gives turns to the callers who are next, and forgets the queue once nobody joins it.
func (j *Joins) pass(queue string, of *turns) {
	room := 1
	if of.noLine {
		room = j.most
	}
	for of.taken < room && of.waiting.admit() {
		of.taken++
	}
	if of.taken == 0 && !of.waiting.any() {
		delete(j.of, queue)
	}
}
