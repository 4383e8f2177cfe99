package recipe

import (
	"fmt"
	"slices"
)

// A Rule decides which of the entries ahead of an entry keep it waiting. Rules are pure: the same queue gives the same
// answer in every process, which is what makes the queue a lock.
//
// Every rule keeps two properties, on which the argument in the package documentation rests. While all the blockers
// it names live unchanged, the entry may not be granted. And entries behind never matter.
type Rule struct {
	shared bool
	size   int64
}

// ExclusiveRule is the rule of mutexes, writers and candidates: any entry ahead blocks, and the nearest stands for all.
func ExclusiveRule() Rule { return Rule{} }

// SharedRule is the rule of readers: only what is exclusive blocks, and the nearest such entry stands for all.
func SharedRule() Rule { return Rule{shared: true} }

// UnitsRule is the rule of a semaphore of the given size: an entry is granted once the units of all entries ahead
// leave room for its own. It waits for as many of the nearest as keep it from fitting.
//
// To watch only the entry size places ahead, as Curator's LockInternals does for its maxLeases, strands a waiter when
// holders release out of order: the one it watches goes on holding while room appears elsewhere.
//
// It panics if size is less than 1.
func UnitsRule(size int64) Rule {
	if size < 1 {
		panic("farsync: UnitsRule: size below 1")
	}
	return Rule{size: size}
}

// Units reports whether the rule is a semaphore's.
func (r Rule) Units() bool { return r.size > 0 }

// Nearest reports whether the nearest entry ahead alone decides. A Store may then read just that one; otherwise the
// rule must be shown all entries ahead.
func (r Rule) Nearest() bool { return !r.shared && r.size == 0 }

// Blockers returns those of ahead, oldest first, that e has to wait for, nearest first. None means that e is granted.
func (r Rule) Blockers(e Entry, ahead []Entry) []Entry {
	switch {
	case r.size > 0:
		return r.crowd(e, ahead)
	case r.shared:
		for _, other := range slices.Backward(ahead) {
			if other.Kind != Read {
				return []Entry{other}
			}
		}
		return nil
	case len(ahead) == 0:
		return nil
	default:
		return ahead[len(ahead)-1:]
	}
}

// crowd returns the fewest of the nearest entries ahead whose units leave no room for e. While all of them live, the
// units ahead are at least theirs, so e cannot fit.
func (r Rule) crowd(e Entry, ahead []Entry) []Entry {
	room := r.size - e.Units
	var near []Entry
	for _, other := range slices.Backward(ahead) {
		near = append(near, other)
		// Not as a sum: somebody may have asked for more units than a sum can hold.
		if other.Units > room {
			return near
		}
		room -= other.Units
	}
	return nil
}

// Sized returns what blocks a permit in a queue of that size, an entry of kind Size whose Units are the current one: what
// UnitsRule names, and the size itself, for when it changes the permit may fit. ErrTooLarge: it never will.
func Sized(e Entry, ahead []Entry, size Entry) ([]Entry, error) {
	if e.Units > size.Units {
		return nil, fmt.Errorf("%w: %d of %d", ErrTooLarge, e.Units, size.Units)
	}
	blockers := UnitsRule(size.Units).Blockers(e, ahead)
	if len(blockers) > 0 {
		blockers = append(blockers, size)
	}
	return blockers, nil
}

// SizeError is ErrSize, with both sizes.
func SizeError(declared, asked int64) error {
	return fmt.Errorf("%w: declared as %d by who uses it, as %d here", ErrSize, declared, asked)
}
