// Package turnstile has the goroutines and processes of one machine take turns at something, in the order in which they
// came.
//
// It is for what has a lock of its own that is a lottery, as an SQLite file has: the caller who tries at the right
// moment gets it. A [Gate] keeps the tries in order, and is not the lock. Between processes, it lets a ticket pass
// whose turn has not come if the ticket ahead does not move: a process that is stopped while it waits keeps no other
// waiting, and a process that has died has no tickets.
//
// The ticket of a process is a locked byte in a file, which the system unlocks when the process ends. Its position is
// its number, drawn from a counter in the file; beside that stands the number that left last. Waiting is by looking
// whether there is a lower ticket, for a system call that waits for a lock hears of no context.
package turnstile

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/farsync/farsync/internal/machine"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// counterAt is the byte that is locked while a number is drawn. Tickets are behind it.
	counterAt = 0
	// patience is how long the next ticket waits while none leaves. A ticket with others ahead waits for patience for each
	// of them, up to mostPatient. On a busy machine the process that has the turn sometimes gets no processor for that
	// long. If all tickets tried then, they would keep it from one for longer.
	patience    = 10 * time.Millisecond
	mostPatient = 20
	// A look follows another after look for each ticket ahead, or after half of the time that the tickets ahead will take
	// at the pace of the wait so far, whichever is longer, and after patience at the latest, or half of the time that it has
	// waited, but twice at least while it is patient. So a ticket far behind looks a few times in all, also where turns are
	// long. Each look costs the more, the more tickets there are, and takes a processor that the ticket with the turn may be
	// waiting for: turns get longer, and more tickets stand in line and look. The pace of a short wait says little,
	// for one turn in it may have been a slow one. Tickets behind pass a ticket that comes to be next while it rests.
	look = 20 * time.Microsecond
	// near is how many tickets ahead are waited for by naps. A nap is in time, and keeps one of the few threads that run
	// goroutines; the goroutines that work in this process may be what is waited for.
	near = 3
	// draws is how often a number is tried for. It takes three system calls to draw one, so only a process that was
	// stopped between them can keep others from it for that long.
	draws = 50
	// A try that has failed is followed by another after up to napMost, and after naps of them, of up to restMost. The
	// times are random and do not grow at first, so that where there are no tickets none falls behind by having waited for
	// longer.
	napMost  = 150 * time.Microsecond
	naps     = 50
	restMost = 5 * time.Millisecond
)

// ErrClosed is returned by Join after Close.
var ErrClosed = errors.New("the gate is closed")

// A Gate is where tickets are drawn. Each process has its own on the same file.
type Gate struct {
	path string
	// turn has a value while no ticket is out, and is closed with the gate. The fields that follow are used under it.
	turn  chan struct{}
	open  bool
	file  *os.File // nil where a file has no locks of the kind that is needed, or cannot be written
	stuck []int64  // tickets that were overtaken, lowest first; they are ignored until they are gone
}

// New returns a gate at a file, which is made with the first ticket, and does not need to be removed. A file
// that machine.CheckPlain refuses is not written to.
func New(path string) *Gate {
	g := &Gate{path: path, turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// Close waits until no ticket is out, and closes the gate.
func (g *Gate) Close() error {
	<-g.turn
	close(g.turn)
	if g.file == nil {
		return nil
	}
	return g.file.Close()
}

// A Ticket is a place in the order. The zero Ticket has nothing ahead.
type Ticket struct {
	gate   *Gate
	number int64 // 0 if it has none, and has to try its luck among other processes
	first  int64 // what was first when the ticket ran out of patience; 0 if it has not
	tries  int
}

// Join draws a ticket, which Leave gives back. Goroutines of this process wait in it, until theirs is the only one, or
// ctx ends. The error is ErrClosed, or the cause of ctx's end.
func (g *Gate) Join(ctx context.Context) (*Ticket, error) {
	select {
	case _, open := <-g.turn:
		if !open {
			return nil, ErrClosed
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !g.open && supported {
		g.file = openFile(g.path) // without it, processes try their luck
	}
	g.open = true
	t := &Ticket{gate: g}
	for n := 0; g.file != nil && n < draws && !g.number(t); n++ {
		machine.Nap(look)
	}
	return t, nil
}

// number gives the ticket its number, and reports false if another process is drawing.
func (g *Gate) number(t *Ticket) bool {
	if !lock(g.file, counterAt) {
		return false
	}
	defer unlock(g.file, counterAt)
	if number, err := g.draw(); err == nil && lock(g.file, number) {
		t.number = number
	}
	return true
}

// draw counts the counter on. A file that is new counts from 1.
func (g *Gate) draw() (int64, error) {
	number := g.read(0)%(1<<62) + 1 // positive, whatever stands there
	return number, g.write(0, number)
}

// left returns the number that left last, and leave writes it. It is a hint.
func (g *Gate) left() int64 { return g.read(8) }

func (g *Gate) leave(number int64) { _ = g.write(8, number) }

func (g *Gate) read(at int64) int64 {
	var is [8]byte
	_, _ = g.file.ReadAt(is[:], at) // zero if the file is new
	return int64(binary.BigEndian.Uint64(is[:]) >> 1)
}

func (g *Gate) write(at, number int64) error {
	_, err := g.file.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(number)<<1), at)
	return err
}

// Wait waits until nothing is ahead of the ticket, or until none has left for a while, 10 ms if it is next, and the
// caller then tries. If what it tries for is taken, it calls Wait again, which first rests for a moment. Wait reports
// false once ctx has ended and a try was made.
func (t *Ticket) Wait(ctx context.Context) bool {
	switch t.tries++; {
	case t.tries == 1:
	case t.tries <= naps:
		machine.Nap(rand.N(napMost))
	default:
		_ = pause.For(ctx, rand.N(restMost))
	}
	t.first = 0
	var p pace
	for t.number != 0 && ctx.Err() == nil {
		low := t.gate.among(t.number, locked)
		if low == 0 {
			break
		}
		now, left := time.Now(), t.gate.left()
		p.moved(now, left)
		ahead := t.number - low
		if low < left && left < t.number {
			ahead = t.number - left // the low ticket is slow, and others have passed it
		}
		if p.tires(now, ahead) {
			t.first = t.gate.first(t.number)
			return true
		}
		if ahead > near {
			_ = pause.For(ctx, p.rest(now, ahead))
		} else {
			machine.Nap(look * time.Duration(ahead))
			runtime.Gosched()
		}
	}
	return t.tries == 1 || ctx.Err() == nil
}

// A pace is how quickly tickets leave, as a waiter has seen it.
type pace struct {
	began, since time.Time // of the wait, and when one was last seen to leave
	left         int64     // that one
	turns        int64     // how many may have left
}

func (p *pace) moved(now time.Time, left int64) {
	switch {
	case p.began.IsZero():
		p.began = now
	case left == p.left:
		return
	default:
		p.turns += max(left-p.left, 1)
	}
	p.since, p.left = now, left
}

// tires reports whether a ticket with others ahead of it has waited long enough for one to leave.
func (p *pace) tires(now time.Time, ahead int64) bool {
	return now.Sub(p.since) > patience*time.Duration(min(ahead, mostPatient))
}

// rest returns how long from now a ticket with others ahead of it need not look.
func (p *pace) rest(now time.Time, ahead int64) time.Duration {
	d := look * time.Duration(min(ahead, 100))
	if p.turns > 0 {
		d = max(d, p.since.Sub(p.began)/time.Duration(p.turns)*time.Duration(min(ahead, 1000))/2)
	}
	return min(d, max(patience, now.Sub(p.began)/2), patience*time.Duration(min(ahead, mostPatient))/2)
}

// Leave gives up the place, once. passed tells whether the holder has had its turn. If it had lost patience before,
// what was first then was not about to take its own turn, and this process does not wait for it any more.
func (t *Ticket) Leave(passed bool) {
	if t.gate == nil {
		return
	}
	g := t.gate
	if passed && t.first != 0 {
		at, _ := slices.BinarySearch(g.stuck, t.first)
		g.stuck = slices.Insert(g.stuck, at, t.first)
	}
	if t.number != 0 {
		g.leave(t.number)
		unlock(g.file, t.number)
	}
	g.turn <- struct{}{}
}

// first returns the lowest ticket below a number, 0 if there is none.
func (g *Gate) first(below int64) int64 { return g.among(below, lowest) }

// among looks below a number, beside the tickets that are stuck. Stuck tickets that have gone are forgotten.
func (g *Gate) among(below int64, look func(file *os.File, from, to int64) int64) int64 {
	g.stuck = slices.DeleteFunc(g.stuck, func(n int64) bool { return locked(g.file, n, n+1) == 0 })
	from := int64(counterAt + 1)
	for _, n := range g.stuck {
		if is := look(g.file, from, min(n, below)); from < n && is != 0 {
			return is
		}
		from = n + 1
	}
	return look(g.file, from, below)
}

// lowest returns the lowest locked byte from one up to another, 0 if there is none. The system tells of any.
func lowest(file *os.File, from, to int64) (is int64) {
	for to = locked(file, from, to); to != 0; to = locked(file, from, to) {
		is = to
	}
	return is
}
