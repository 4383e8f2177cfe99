package model

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// A System is what is explored: all that may happen, from one state on.
type System[S comparable] interface {
	// Start returns the first state.
	Start() S

	// Steps yields every step that is possible in s.
	Steps(s S, yield func(Step[S]))

	// Check returns what is wrong with a state.
	Check(s S) error

	// Rest returns what is wrong with a state in which nothing has to happen any more.
	Rest(s S) error
}

// A Step leads from one state to another.
type Step[S comparable] struct {
	Who  string // the client that takes it, or the service
	What string
	Next S
	// Due is true for a step that is bound to happen unless another makes it impossible: an answer arrives, a holder
	// releases. It is false for what may never happen: a fault, a caller that gives up.
	Due bool
	// Wrong is what is wrong with the step itself.
	Wrong error
}

// A Result is what an exploration has found.
type Result struct {
	States   int           // that can be reached, and were looked at
	Steps    int           // between them
	Depth    int           // the length of the longest of the shortest ways to a state
	Took     time.Duration // by the clock
	Violated error         // what is wrong, if anything is
	Trace    []string      // a shortest way to it
	Complete bool          // no state was left out. False after a violation, and at the limit.
}

func (r Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d states, %d steps, depth %d, %v", r.States, r.Steps, r.Depth, r.Took.Round(time.Millisecond))
	switch {
	case r.Violated != nil:
		fmt.Fprintf(&text, "\nviolated: %v, after %d steps:", r.Violated, len(r.Trace))
		for i, step := range r.Trace {
			fmt.Fprintf(&text, "\n%4d. %s", i+1, step)
		}
	case !r.Complete:
		text.WriteString(", cut off")
	}
	return text.String()
}

// Explore visits every state that can be reached, breadth first, so that the trace of what it finds is a shortest one.
// It stops at the first violation, or when it has seen as many states as limit, if that is positive. These are
// violations:
//
//   - a step or a state with which something is wrong;
//   - a state in which no step is due, at rest, with which something is wrong;
//   - a circle of steps that are due: they might go on for ever, and a waiter never have its turn.
//
// If there are none, the steps that are due lead from every state to a state at rest, in whatever order they happen. So
// a condition that is true in all states at rest is reached in every fair continuation of every state.
//
// A state that was seen is known by 128 bits of its hash. That any two of 10 million share them has a probability below
// 10⁻²⁴.
func Explore[S comparable](system System[S], limit int) Result {
	e := &exploration[S]{system: system, seen: map[[2]uint64]uint32{}}
	e.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	began := time.Now()
	r := e.run(limit)
	r.Took = time.Since(began)
	return r
}

type exploration[S comparable] struct {
	system System[S]
	seeds  [2]maphash.Seed
	seen   map[[2]uint64]uint32
	ways   []way
	next   []S      // the states of the next level, in order of their numbers
	due    []uint32 // the ends of the steps that are due, in order of the states that they begin in
	starts []uint32 // where the entries of due for a state begin
	steps  int
	wrong  error
	last   []string // the step that went wrong, if it has not made a state
}

// A way is how a state was reached first.
type way struct {
	from uint32
	nth  uint32 // of the steps that were possible
}

// number returns the number of a state, and reports whether it is new.
func (e *exploration[S]) number(s S) (n uint32, isNew bool) {
	key := [2]uint64{maphash.Comparable(e.seeds[0], s), maphash.Comparable(e.seeds[1], s)}
	if n, ok := e.seen[key]; ok {
		return n, false
	}
	n = uint32(len(e.seen))
	e.seen[key] = n
	return n, true
}

func (e *exploration[S]) run(limit int) (r Result) {
	start := e.system.Start()
	e.number(start)
	e.ways = append(e.ways, way{})
	e.next = []S{start}
	if e.wrong = e.system.Check(start); e.wrong != nil {
		return e.result(0)
	}
	from := uint32(0)
	for depth := 0; len(e.next) > 0; depth++ {
		level := e.next
		e.next = nil
		r.Depth = depth
		for _, s := range level {
			if e.expand(from, s); e.wrong != nil {
				break
			}
			from++
		}
		if e.wrong != nil {
			r := e.result(depth)
			r.Trace = append(e.trace(from), e.last...)
			return r
		}
		if limit > 0 && len(e.seen) >= limit {
			return e.result(depth)
		}
	}
	e.starts = append(e.starts, uint32(len(e.due)))
	done := e.result(r.Depth)
	done.Complete = true
	if n, ok := e.circle(); ok {
		done.Violated = fmt.Errorf("steps that are due lead back to where they began")
		done.Trace = e.trace(n)
		done.Complete = false
	}
	return done
}

func (e *exploration[S]) result(depth int) Result {
	return Result{States: len(e.seen), Steps: e.steps, Depth: depth, Violated: e.wrong}
}

// expand takes every step from one state. If one goes wrong, the others are not taken.
func (e *exploration[S]) expand(from uint32, s S) {
	e.starts = append(e.starts, uint32(len(e.due)))
	nth, due := uint32(0), false
	e.system.Steps(s, func(step Step[S]) {
		defer func() { nth++ }()
		if e.wrong != nil {
			return
		}
		e.steps++
		due = due || step.Due
		if e.wrong = step.Wrong; e.wrong == nil {
			e.wrong = e.system.Check(step.Next)
		}
		if e.wrong != nil {
			e.last = []string{step.Who + " " + step.What}
			return
		}
		n, isNew := e.number(step.Next)
		if isNew {
			e.ways = append(e.ways, way{from, nth})
			e.next = append(e.next, step.Next)
		}
		if step.Due {
			e.due = append(e.due, n)
		}
	})
	if e.wrong == nil && !due {
		e.wrong = e.system.Rest(s)
	}
}

// trace returns the steps that lead to a state.
func (e *exploration[S]) trace(n uint32) (trace []string) {
	var ways []way
	for ; n != 0; n = e.ways[n].from {
		ways = append(ways, e.ways[n])
	}
	s := e.system.Start()
	for _, w := range slices.Backward(ways) {
		nth := uint32(0)
		var taken Step[S]
		e.system.Steps(s, func(step Step[S]) {
			if nth == w.nth {
				taken = step
			}
			nth++
		})
		trace = append(trace, taken.Who+" "+taken.What)
		s = taken.Next
	}
	return trace
}

// circle returns a state that stands in a circle of steps that are due, or behind one, if there is any: states that no
// such step leads to are taken away until there are none, and what is left has a circle.
func (e *exploration[S]) circle() (n uint32, ok bool) {
	into := make([]uint32, len(e.seen))
	for _, to := range e.due {
		into[to]++
	}
	var free []uint32
	for n := range into {
		if into[n] == 0 {
			free = append(free, uint32(n))
		}
	}
	left := len(into)
	for len(free) > 0 {
		n := free[len(free)-1]
		free = free[:len(free)-1]
		left--
		for _, to := range e.due[e.starts[n]:e.starts[n+1]] {
			if into[to]--; into[to] == 0 {
				free = append(free, to)
			}
		}
	}
	if left == 0 {
		return 0, false
	}
	return uint32(slices.IndexFunc(into, func(n uint32) bool { return n > 0 })), true
}
