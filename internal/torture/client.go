//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/torture/history"
)

const (
	// lookEvery is how often a holder looks whether it still holds. It writes to the resource, and to the history, when
	// it begins to hold and then ever more seldom, but not less often than once in writeMost: a hold for seconds has to
	// cost no more than some short ones.
	lookEvery = 5 * time.Millisecond
	writeMost = 50 * time.Millisecond
	// lateEvery is how often a write that comes too late is tried.
	lateEvery = 20 * time.Millisecond
)

// A client is a goroutine that takes locks, one after another, and notes what it sees.
type client struct {
	part
	wire     int // of the process, that its Store is behind
	number   int
	random   *rand.Rand
	history  *history.Recorder
	resource *desk
	complain func(format string, a ...any) // of what must not happen and no history shows
	late     *sync.WaitGroup               // writes that come too late; joined by the worker
}

// play takes locks until stop is closed. A call may wait for as long as life lasts.
func (c *client) play(life context.Context, stop <-chan struct{}, from locker) {
	for {
		select {
		case <-stop:
			return
		case <-life.Done():
			return
		default:
		}
		c.once(life, from.lock(c.random, c.Primitives[c.random.IntN(len(c.Primitives))]))
		_ = pause.For(life, upTo(c.random, 4*time.Millisecond))
	}
}

// finish takes one lock of each primitive, after all faults. No call may fail.
func (c *client) finish(ctx context.Context, from locker) {
	for _, primitive := range c.Primitives {
		l := from.lock(c.random, primitive)
		if h, n := c.call(ctx, l, l.take, true); h != nil {
			c.hold(ctx, l, h, n, time.Millisecond)
		}
	}
}

// once takes a lock in one of several ways.
func (c *client) once(life context.Context, l lock) {
	ctx, call, patient := life, l.take, true
	switch way := c.random.IntN(10); {
	case l.observe != nil && c.random.IntN(2) == 0:
		c.observe(life, l)
		return
	case l.try != nil && way == 0:
		call, patient = l.try, false
	case way < 3: // it gives up soon
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(life, upTo(c.random, 50*time.Millisecond))
		defer cancel()
		patient = false
	case way < 7: // or after a while, so that one lock that is stuck does not keep all clients
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(life, upTo(c.random, c.TTL/2))
		defer cancel()
		patient = false
	}
	if h, n := c.call(ctx, l, call, patient); h != nil {
		c.hold(life, l, h, n, c.stay())
	}
}

// stay is for how long a lock is held: mostly for the time of some requests, now and then for longer than the TTL.
func (c *client) stay() time.Duration {
	switch way := c.random.IntN(100); {
	case way < 94:
		return time.Millisecond + upTo(c.random, 4*time.Millisecond)
	case way < 98:
		return upTo(c.random, c.TTL/10)
	case way < 99:
		return upTo(c.random, c.TTL/2)
	default:
		return c.TTL + upTo(c.random, c.TTL/2)
	}
}

// call acquires. A patient call, whose ctx does not end, must not fail.
func (c *client) call(
	ctx context.Context, l lock, acquire func(context.Context) (held, error), patient bool,
) (h held, n int64) {
	n = c.history.Invoke(c.number, l.queue, l.kind, l.units)
	h, err := acquire(ctx)
	at := history.Now()
	if err != nil {
		c.history.Note(history.Event{At: at, Number: n, Outcome: history.Failed, Error: err.Error()})
		if patient && ctx.Err() == nil && c.Recipe == ours {
			c.complain("a call failed that could have waited: %v", err)
		}
		return nil, 0
	}
	e := history.Event{At: at, Number: n, Outcome: history.OK, Token: int64(h.Token()), Tokens: tokensOf(h)}
	if c.random.IntN(8) == 0 { // not always, for it keeps the lock from being handed off
		entry := entryOf(h)
		e.Session, e.Entry = entry.Session, entry.ID
	}
	c.history.Note(e)
	return h, n
}

// hold stays in the critical section, and leaves it.
func (c *client) hold(life context.Context, l lock, h held, n int64, stay time.Duration) {
	if c.section(life, l, h, n, stay) && l.again && c.random.IntN(3) == 0 {
		ctx, cancel := context.WithTimeout(life, c.TTL)
		inner, m := c.call(ctx, l, l.take, false)
		if inner != nil {
			c.section(life, l, inner, m, stay/2)
			c.release(inner, m)
		}
		cancel()
	}
	if l.downgrade != nil && c.random.IntN(3) == 0 && h.Err() == nil {
		n = c.downgrade(life, l, h, n)
	}
	c.release(h, n)
}

// section writes to the resource until it is time to leave, and reports false if the lock was lost meanwhile.
func (c *client) section(life context.Context, l lock, h held, n int64, stay time.Duration) bool {
	w := write{Process: c.Process, Wire: c.wire, Queue: l.queue, Tokens: tokensOf(h), Fenced: fenced(l.kind), First: true}
	if w.Tokens == nil {
		w.Tokens = []int64{int64(h.Token())}
	}
	var seen, noted int64 // when it was held at the latest, as it is known, and as it is written
	note := func() {
		if seen > noted {
			c.history.Note(history.Event{At: seen, Number: n, Outcome: history.Held})
			noted = seen
		}
	}
	until, next, pace := time.Now().Add(stay), time.Time{}, lookEvery
	for {
		at := history.Now()
		if err := h.Err(); err != nil {
			note()
			c.lost(n, err)
			c.lateWrites(life, w)
			return false
		}
		seen = at
		if !time.Now().Before(next) {
			note()
			a := c.resource.write(w)
			if !a.Admitted && h.Err() == nil {
				c.complain("the lease with token %d on %s was held, and the resource had seen a higher one", w.Tokens, w.Queue)
			}
			if a.Stay > 0 {
				until = time.Now().Add(a.Stay)
			}
			w.First, pace = false, min(2*pace, writeMost)
			next = time.Now().Add(pace)
		}
		if time.Now().After(until) {
			note()
			return true
		}
		select {
		case <-h.Done():
		case <-time.After(min(lookEvery, time.Until(until)+time.Microsecond)):
		}
	}
}

func (c *client) lost(n int64, err error) {
	c.history.Note(history.Event{At: history.Now(), Number: n, Outcome: history.Lost, Error: err.Error()})
}

// lateWrites writes as a holder does that has lost its lock and does not know it: a write that was under way arrives
// late, for example. It ends with the first refusal: another client has taken the lock and has written.
func (c *client) lateWrites(life context.Context, w write) {
	if !w.Fenced {
		return
	}
	w.First = false
	c.late.Go(func() {
		for over := time.Now().Add(2 * c.TTL); time.Now().Before(over); {
			if !c.resource.write(w).Admitted || pause.For(life, lateEvery) != nil {
				return
			}
		}
	})
}

// downgrade has a writer's hold become a reader's, and returns the number of the operation that holds then.
func (c *client) downgrade(life context.Context, l lock, h held, n int64) int64 {
	ctx, cancel := context.WithTimeout(life, c.TTL)
	defer cancel()
	reader := c.history.Invoke(c.number, l.queue, history.Read, 1)
	at := history.Now()
	err := l.downgrade(ctx, h)
	after := history.Now()
	if err != nil {
		c.history.Note(history.Event{At: after, Number: reader, Outcome: history.Failed, Error: err.Error()})
		return n
	}
	c.history.Note(history.Event{At: at, Number: n, Outcome: history.Leaving})
	c.history.Note(history.Event{At: after, Number: n, Outcome: history.Released})
	c.history.Note(history.Event{At: after, Number: reader, Outcome: history.OK, Token: int64(h.Token())})
	c.section(life, lock{kind: history.Read, queue: l.queue}, h, reader, c.stay())
	return reader
}

// release gives a lock back, and notes what Release says of it.
func (c *client) release(h held, n int64) {
	c.history.Note(history.Event{At: history.Now(), Number: n, Outcome: history.Leaving})
	err := h.Release()
	switch {
	case errors.Is(err, farsync.ErrLost):
		c.lost(n, err)
	case err != nil:
		c.history.Note(history.Event{At: history.Now(), Number: n, Outcome: history.Unknown, Error: err.Error()})
	default:
		c.history.Note(history.Event{At: history.Now(), Number: n, Outcome: history.Released})
	}
}

// observe looks who leads.
func (c *client) observe(life context.Context, l lock) {
	ctx, cancel := context.WithTimeout(life, c.TTL)
	defer cancel()
	n := c.history.Invoke(c.number, l.queue, history.Observe, 0)
	token, err := l.observe(ctx)
	e := history.Event{At: history.Now(), Number: n, Outcome: history.OK, Token: token}
	if err != nil && !errors.Is(err, farsync.ErrNoLeader) {
		e.Outcome, e.Error = history.Failed, fmt.Sprint(err)
	}
	c.history.Note(e)
}
