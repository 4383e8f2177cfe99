//go:build unix

package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// A part of a history is what the models are run on at once: their memory grows with the square of it. Parts
	// overlap by half, for what two holders have done at once is to be in one of them.
	part = 2000
	// modelFor bounds the search in one part. It is for parts that are wrong. A part that is right takes milliseconds.
	modelFor = 20 * time.Second
)

// A step is what a model takes: a grant, the end of one, or an observation.
type step struct {
	of  *Operation
	end bool
}

// A state is what a model knows of a lock: who holds it, and the highest tokens that were granted. It never changes.
type state struct {
	holders  []*Operation
	last     int64 // of all but readers
	lastRead int64
	highest  []int64 // of each member of a quorum
}

func (s state) equal(other state) bool {
	return s.last == other.last && s.lastRead == other.lastRead && slices.Equal(s.holders, other.holders) &&
		slices.Equal(s.highest, other.highest)
}

// next returns what becomes of a lock by a step, or false if that must not happen now. It is the model of all
// primitives: what they have in common is that a holder keeps others out, and that tokens rise.
func (s state) next(by step, p Promises) (bool, state) {
	o := by.of
	if by.end {
		i := slices.Index(s.holders, o)
		if i < 0 {
			return false, s
		}
		s.holders = slices.Delete(slices.Clone(s.holders), i, i+1)
		return true, s
	}
	if o.Kind == Observe {
		if o.Token == 0 {
			return !slices.ContainsFunc(s.holders, func(holder *Operation) bool { return !p.outlived(holder, o) }), s
		}
		return o.Token == s.last, s // the entry of a leader may outlive its lease
	}
	units := o.Units
	for _, holder := range s.holders {
		if units += holder.Units; excludes(o, holder) {
			return false, s
		}
	}
	rises := o.Token > s.last
	switch {
	case p.Unfenced:
		rises = true
	case o.Kind == Quorum:
		rises, s.highest = rise(o.Tokens, s.highest)
	case o.Kind == Permit: // their tokens only tell them apart
		rises = units <= p.Size
	case o.Kind == Read: // a writer keeps its token when it becomes a reader
		rises = o.Token >= s.last
	case o.Kind == Write:
		rises = o.Token > s.last && o.Token > s.lastRead
	case o.Kind == Reentrant && len(s.holders) > 0:
		rises = o.Token == s.last
	}
	if o.Kind == Permit && units > p.Size {
		rises = false
	}
	// Sorted, so that states in which the same hold are equal.
	s.holders = append(slices.Clone(s.holders), o)
	slices.SortFunc(s.holders, func(a, b *Operation) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Number, b.Number))
	})
	if o.Kind == Read {
		s.lastRead = max(s.lastRead, o.Token)
	} else {
		s.last = max(s.last, o.Token)
	}
	return rises, s
}

// model runs the model on the grants of a queue and on what was seen of them, part by part.
func (r *Report) model(grants, seen []*Operation, p Promises) {
	if p.Stale || p.Unfenced {
		seen = nil
	}
	grants = slices.SortedFunc(slices.Values(grants), func(a, b *Operation) int { return cmp.Compare(a.Return, b.Return) })
	for from := 0; from < len(grants); from += part / 2 {
		some := grants[from:min(from+part, len(grants))]
		all := len(some) == len(grants)
		known := map[int64]bool{}
		for _, o := range some {
			known[o.Token] = true
		}
		// Observations of other holds say nothing about these. A candidate may have been seen to lead and not know it
		// itself.
		shown := slices.DeleteFunc(slices.Clone(seen), func(o *Operation) bool { return !known[o.Token] && (o.Token != 0 || !all) })
		r.Modelled += len(some) + len(shown)
		switch linearizable(some, shown, p) {
		case porcupine.Illegal:
			r.add("model", some[0], some[len(some)-1].Return, "no order of the steps between grants %d and %d is right", from, from+len(some))
		case porcupine.Unknown:
			r.Undecided++
		}
		if from+part >= len(grants) {
			return
		}
	}
}

// linearizable asks whether the steps can have happened one by one: a grant between the call and its return, its end
// between when it was last seen held and when the loss was noticed, and an observation during its call.
func linearizable(grants, seen []*Operation, p Promises) porcupine.CheckResult {
	var list []porcupine.Operation
	for _, o := range grants {
		list = append(list,
			porcupine.Operation{Input: step{of: o}, Call: o.Call, Return: o.Return},
			porcupine.Operation{Input: step{of: o, end: true}, Call: max(o.Call, o.Seen), Return: max(o.End, o.Seen, o.Call)})
	}
	for _, o := range seen {
		list = append(list, porcupine.Operation{Input: step{of: o}, Call: o.Call, Return: o.Return})
	}
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init:  func() any { return state{} },
		Step:  func(s, input, _ any) (bool, any) { return s.(state).next(input.(step), p) },
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
	}, list, modelFor)
}
