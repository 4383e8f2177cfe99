package recipe

import (
	"slices"

	"github.com/farsync/farsync/driver"
)

// A rule decides which of the entries ahead of an entry keep it waiting. Rules are pure: the same queue gives the same
// answer in every process, which is what makes the queue a lock.
//
// Every rule keeps two properties, on which the argument in the package documentation rests. While all the blockers
// it names live unchanged, the entry may not be granted. And entries behind never matter.
type rule struct {
	shared bool
	size   int64 // of a semaphore; 0 for all other rules
}

// ruleOf returns the rule of an entry's kind, in a queue of that size if it is a permit.
//
// For mutexes, writers and candidates any entry ahead blocks, and the nearest stands for all. For readers only what is
// exclusive blocks, and the nearest such entry stands for all.
func ruleOf(k driver.Kind, size int64) rule {
	switch k {
	case driver.Permit:
		return unitsRule(size)
	case driver.Read:
		return rule{shared: true}
	default:
		return rule{}
	}
}

// unitsRule is the rule of a semaphore of the given size: an entry is granted once the units of all entries ahead
// leave room for its own. It waits for as many of the nearest as keep it from fitting.
//
// To watch only the entry size places ahead, as Curator's LockInternals does for its maxLeases, strands a waiter when
// holders release out of order: the one it watches keeps holding while room appears elsewhere.
//
// It panics if size is less than 1.
func unitsRule(size int64) rule {
	if size < 1 {
		panic("farsync: semaphore size below 1")
	}
	return rule{size: size}
}

// blockers returns the entries of ahead, oldest first, that e has to wait for, nearest first. If there are none, e is granted. The
// result shares no memory with ahead, which a waiter would keep alive as long as it waits.
func (r rule) blockers(e driver.Entry, ahead []driver.Entry) []driver.Entry {
	switch {
	case r.size > 0:
		return r.crowd(e, ahead)
	case r.shared:
		for _, other := range slices.Backward(ahead) {
			if other.Kind != driver.Read {
				return []driver.Entry{other}
			}
		}
		return nil
	case len(ahead) == 0:
		return nil
	default:
		return []driver.Entry{ahead[len(ahead)-1]}
	}
}

// crowd returns the fewest of the nearest entries ahead whose units leave no room for e. While all of them live, the
// units ahead are at least theirs, so e cannot fit. An entry that is no permit leaves no room at all.
//
// No rule that only watches can name fewer: if what it names leaves room for e, e may run as soon as all others ahead are gone,
// and nothing would wake it. Holders go, and waiters rarely do, so the nearest are those whose end wakes it in vain the
// least: when units are released in the order in which they were acquired, never.
func (r rule) crowd(e driver.Entry, ahead []driver.Entry) []driver.Entry {
	room := r.size - e.Units
	var near []driver.Entry
	for _, other := range slices.Backward(ahead) {
		if other.Kind != driver.Permit {
			return []driver.Entry{other}
		}
		near = append(near, other)
		// Not as a sum: an entry may ask for more units than a sum can hold.
		if other.Units > room {
			return near
		}
		room -= max(other.Units, 0) // of fewer units than 1, as another program may write it, a permit takes none
	}
	return nil
}

// left returns how many units of a semaphore are free beside e and all that is ahead of it.
func (r rule) left(e driver.Entry, ahead []driver.Entry) int64 {
	free := r.size - e.Units
	for _, other := range ahead {
		free -= min(max(other.Units, 0), free)
	}
	return free
}

// ends returns which change of a blocker may let the entry run: its end, and for a reader, that a writer ahead becomes a
// reader itself.
func (r rule) ends(blocker driver.Entry) driver.What {
	if r.shared && blocker.Kind == driver.Write {
		return driver.Changed
	}
	return driver.Gone
}

// holders returns how many of the entries at the head of a queue hold, oldest first. Since every rule is fair, what is
// behind an entry that waits does not hold either.
func holders(queue []driver.Entry, size int64) int {
	for i, e := range queue {
		if len(ruleOf(e.Kind, size).blockers(e, queue[:i])) > 0 {
			return i
		}
	}
	return len(queue)
}

// A family is the kinds of entries that share queues.
type family uint8

const (
	mutexes family = iota
	readersAndWriters
	permits
	elections
)

// familyOf returns the family of a kind that is not Foreign.
func familyOf(k driver.Kind) family {
	switch k {
	case driver.Write, driver.Read:
		return readersAndWriters
	case driver.Permit:
		return permits
	case driver.Candidate:
		return elections
	default:
		return mutexes
	}
}

// apart reports whether an entry of kind k is refused in a queue whose oldest entry is of kind head.
//
// A foreign entry says no more than that it is exclusive: what other programs put into these queues are locks and
// elections. So mutexes, candidates, readers and writers wait behind it. A permit could only guess how many units it takes.
func apart(k, head driver.Kind) bool {
	if head == driver.Foreign {
		return k == driver.Permit
	}
	return familyOf(k) != familyOf(head)
}
