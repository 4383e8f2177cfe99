//go:build unix

package main

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync"
)

// An access is one request to the resource.
type access struct {
	at      time.Time
	who     string
	token   farsync.Token
	write   bool
	value   int // read, or to be written
	refused bool
}

// A ledger keeps every access, in the order in which the resource dealt with them. It judges by that order alone, and
// trusts neither the lock nor the resource's mark.
type ledger struct {
	mu       sync.Mutex
	accesses []access // only ever appended to
	added    map[string]int
}

func newLedger() *ledger { return &ledger{added: make(map[string]int)} }

func (l *ledger) add(a access) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.at = time.Now()
	l.accesses = append(l.accesses, a)
	if a.write && !a.refused {
		l.added[a.who]++
	}
}

// all returns what has been kept so far.
func (l *ledger) all() []access {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.accesses)
}

// adds counts the accepted writes of each worker.
func (l *ledger) adds() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.added)
}

// quietFor is how long ago the last access was.
func (l *ledger) quietFor() time.Duration {
	all := l.all()
	if len(all) == 0 {
		return time.Duration(math.MaxInt64)
	}
	return time.Since(all[len(all)-1].at)
}

// next returns the first accepted access with a token above the given one: by the next holder of the lock.
func (l *ledger) next(after farsync.Token) (a access, ok bool) {
	for _, a := range l.all() {
		if !a.refused && a.token > after {
			return a, true
		}
	}
	return access{}, false
}

// writeWith returns the write with that token, and the highest token that had been let in before it.
func (l *ledger) writeWith(token farsync.Token) (write access, mark farsync.Token, ok bool) {
	for _, a := range l.all() {
		if a.write && a.token == token {
			return a, mark, true
		}
		if !a.refused {
			mark = max(mark, a.token)
		}
	}
	return access{}, 0, false
}

// acquisitions returns the accepted reads: every add begins with one, whether or not it is finished.
func (l *ledger) acquisitions() []access {
	var reads []access
	for _, a := range l.all() {
		if !a.write && !a.refused {
			reads = append(reads, a)
		}
	}
	return reads
}

// late returns the requests that came after one with a higher token, split by whether they were refused.
func (l *ledger) late() (refused, accepted []access) {
	var mark farsync.Token
	for _, a := range l.all() {
		switch {
		case a.token >= mark:
			mark = a.token
		case a.refused:
			refused = append(refused, a)
		default:
			accepted = append(accepted, a)
		}
	}
	return refused, accepted
}

// overlaps counts the adds that got through although another write did, between their read and their write.
func (l *ledger) overlaps() int {
	count, writes := 0, 0
	readAt := make(map[string]int) // how many writes there had been when the worker read last
	for _, a := range l.all() {
		switch {
		case a.refused:
		case a.write:
			if writes != readAt[a.who] {
				count++
			}
			writes++
		default:
			readAt[a.who] = writes
		}
	}
	return count
}
