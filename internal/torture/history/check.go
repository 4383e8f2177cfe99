//go:build unix

package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Violation is what must not happen, and did.
type Violation struct {
	Rule  string // overlap, order, token, observe, model, hung
	Queue string
	Text  string
	At    int64 // when it was there to be seen
}

func (v Violation) String() string { return v.Rule + " at " + v.Queue + ": " + v.Text }

// Promises are what the checks hold a history to.
type Promises struct {
	Size int64 // of semaphores
	// Unfenced is for locks without tokens: only that holders exclude one another is checked.
	Unfenced bool
	// Stale allows that an observer sees what another has seen to be over, as a ZooKeeper server that is cut off shows
	// it. Of one observer it is not allowed.
	Stale bool
	// Ends are when all sessions have ended at the service, which lets none lead until their leases are over: a Redis
	// server that was restarted does so. An old leader holds on for a TTL at most, and is no longer seen.
	Ends []Span
	TTL  time.Duration // of the sessions
}

// A Span is a time between two.
type Span struct{ From, To int64 }

// outlived reports whether one look at a lock may not have shown a holder: all sessions had ended since the holder was
// granted the lock, and not yet a TTL ago.
func (p Promises) outlived(holder, look *Operation) bool {
	return slices.ContainsFunc(p.Ends, func(end Span) bool {
		return holder.Call < end.To && end.From < look.Return && look.Call < end.To+int64(p.TTL)
	})
}

// A Report is what the checks of a history have found.
type Report struct {
	Operations, Granted, Failed, Lost int
	// Modelled is how many grants and observations the models were run on, and Undecided in how many parts they came to
	// no end.
	Modelled, Undecided int
	Violations          []Violation
}

// Check checks a history: that holders exclude one another, that tokens rise in the order of the grants, what observers
// see, and that every call has returned, unless its process was killed. The models check the same once more, in another
// way.
func Check(all []Operation, p Promises) Report {
	r := Report{Operations: len(all)}
	queues := map[string][]*Operation{}
	for i := range all {
		o := &all[i]
		queues[o.Queue] = append(queues[o.Queue], o)
		switch {
		case o.Outcome == Failed:
			r.Failed++
		case o.Outcome == OK && o.Kind != Observe:
			r.Granted++
		case o.Outcome == Open && o.End == Never:
			r.add("hung", o, o.Call, "%v was called and has not returned", o)
		}
		if o.Ended == Lost {
			r.Lost++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		grants, seen := parted(queues[name])
		r.overlaps(grants, p)
		if !p.Unfenced {
			r.tokens(grants)
			r.order(grants)
			r.observers(seen, p)
		}
		r.model(grants, seen, p)
	}
	return r
}

// First is when the first violation was there to be seen, or Never.
func (r *Report) First() int64 {
	first := Never
	for _, v := range r.Violations {
		first = min(first, v.At)
	}
	return first
}

func (r *Report) add(rule string, o *Operation, at int64, format string, a ...any) {
	r.Violations = append(r.Violations, Violation{Rule: rule, Queue: o.Queue, Text: fmt.Sprintf(format, a...), At: at})
}

// parted returns the grants and the observations among the operations of a queue.
func parted(list []*Operation) (grants, seen []*Operation) {
	for _, o := range list {
		switch {
		case o.Outcome != OK:
		case o.Kind == Observe:
			seen = append(seen, o)
		default:
			grants = append(grants, o)
		}
	}
	return grants, seen
}

// overlaps compares the times for which holds are known to have been held: from the return of the call to when they
// were seen held last.
func (r *Report) overlaps(grants []*Operation, p Promises) {
	byReturn := slices.SortedFunc(slices.Values(grants), func(a, b *Operation) int { return cmp.Compare(a.Return, b.Return) })
	var inside []*Operation
	for _, o := range byReturn {
		if o.Seen < o.Return {
			continue // it was never seen held
		}
		inside = slices.DeleteFunc(inside, func(other *Operation) bool { return other.Seen <= o.Return })
		units := o.Units
		for _, other := range inside {
			units += other.Units
			if excludes(o, other) {
				r.add("overlap", o, o.Return, "%v was granted, and %v was still held, and both for %v",
					o, other, time.Duration(min(o.Seen, other.Seen)-o.Return))
			}
		}
		if o.Kind == Permit && units > p.Size {
			r.add("overlap", o, o.Return, "%d units are held of %d", units, p.Size)
		}
		inside = append(inside, o)
	}
}

// excludes reports whether two holds must not be held at once, but for the number of permits.
func excludes(a, b *Operation) bool {
	switch {
	case a.Kind == Permit && b.Kind == Permit, a.Kind == Read && b.Kind == Read:
		return false
	case a.Kind == Reentrant && b.Kind == Reentrant:
		return a.owner() != b.owner()
	default:
		return true
	}
}

// tokens finds holds that have one token and must not. Readers may share an entry, a writer keeps its token when it
// becomes a reader, and a reentrant lock has one token for all holds of its owner.
func (r *Report) tokens(grants []*Operation) {
	of := map[int64]*Operation{}
	for _, o := range grants {
		if o.Kind == Quorum {
			if won := len(o.Tokens) - count(o.Tokens, 0); 2*won <= len(o.Tokens) {
				r.add("token", o, o.Return, "%v was won by no majority", o)
			}
			continue // that they rise is checked in the order of the grants
		}
		other, ok := of[o.Token]
		shared := ok && (o.Kind == Read && other.Kind == Read ||
			o.owner() == other.owner() && (o.Kind == Reentrant || o.Kind != other.Kind))
		if o.Token <= 0 {
			r.add("token", o, o.Return, "%v has no token", o)
		} else if ok && !shared {
			r.add("token", o, max(o.Return, other.Return), "%v and %v have one token", o, other)
		}
		of[o.Token] = o
	}
}

// order checks exclusive holds in the order of their tokens: each must have been granted between its own call and its
// return, after the hold before it was granted and after that hold was last seen held. It takes time for sorting and no
// more, and is exact: if such times can be found, the earliest ones will do.
func (r *Report) order(grants []*Operation) {
	list := slices.DeleteFunc(whole(grants), func(o Operation) bool { return o.Kind == Read || o.Kind == Permit })
	slices.SortFunc(list, func(a, b Operation) int {
		return cmp.Or(byToken(&a, &b), cmp.Compare(a.Call, b.Call))
	})
	var now int64
	var marks []int64
	for i := range list {
		o := &list[i]
		if rises, to := rise(o.Tokens, marks); !rises {
			r.add("order", o, o.Return, "%v comes after %v by the tokens of some members, and before it by others", o, marks)
		} else {
			marks = to
		}
		if now = max(now, o.Call); now > o.Return {
			before := &list[i-1]
			r.add("order", o, max(o.Return, before.Return), "%v was granted %v before that could be: %v comes before it by its token",
				o, time.Duration(now-o.Return), before)
			now = o.Return
		}
		now = max(now, o.Seen)
	}
}

// byToken compares holds by their tokens. Holds of quorums are compared by the token of the first member that both have
// won.
func byToken(a, b *Operation) int {
	for i, token := range a.Tokens {
		if i < len(b.Tokens) && token != 0 && b.Tokens[i] != 0 {
			return cmp.Compare(token, b.Tokens[i])
		}
	}
	return cmp.Compare(a.Token, b.Token)
}

// rise reports whether each of the tokens of a quorum is above the highest of that member so far, and returns the
// highest with them. A member by which it was not won has none.
func rise(tokens, highest []int64) (rises bool, now []int64) {
	rises, now = true, append(slices.Clone(highest), make([]int64, max(0, len(tokens)-len(highest)))...)
	for i, token := range tokens {
		if token != 0 {
			rises = rises && token > now[i]
			now[i] = max(token, now[i])
		}
	}
	return rises, now
}

func count(list []int64, of int64) (n int) {
	for _, token := range list {
		if token == of {
			n++
		}
	}
	return n
}

// whole returns the holds of a lock. The holds of a reentrant owner under one token are one, from the first to the
// last.
func whole(grants []*Operation) []Operation {
	var list []Operation
	at := map[int64]int{}
	for _, o := range grants {
		i, ok := at[o.Token]
		if o.Kind == Reentrant && ok && list[i].owner() == o.owner() {
			first := &list[i]
			first.Call, first.Return = min(first.Call, o.Call), min(first.Return, o.Return)
			first.Seen, first.End = max(first.Seen, o.Seen), max(first.End, o.End)
			continue
		}
		at[o.Token] = len(list)
		list = append(list, *o)
	}
	return list
}

// observers checks that no observation shows a leader that was over by an earlier one.
func (r *Report) observers(seen []*Operation, p Promises) {
	list := slices.DeleteFunc(slices.Clone(seen), func(o *Operation) bool { return o.Token == 0 })
	byReturn := slices.SortedFunc(slices.Values(list), func(a, b *Operation) int { return cmp.Compare(a.Return, b.Return) })
	byCall := slices.SortedFunc(slices.Values(list), func(a, b *Operation) int { return cmp.Compare(a.Call, b.Call) })
	latest := map[string]*Operation{} // the highest token that had been seen, by owner, or by all
	next := 0
	name := func(o *Operation) string {
		if p.Stale {
			return o.owner()
		}
		return ""
	}
	for _, o := range byCall {
		for ; next < len(byReturn) && byReturn[next].Return < o.Call; next++ {
			if over := latest[name(byReturn[next])]; over == nil || over.Token < byReturn[next].Token {
				latest[name(byReturn[next])] = byReturn[next]
			}
		}
		if over := latest[name(o)]; over != nil && o.Token < over.Token {
			r.add("observe", o, o.Return, "%v was seen, and before it %v", o, over)
		}
	}
}
