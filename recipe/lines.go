package recipe

import (
	"hash/maphash"
	"sync"

	"github.com/farsync/farsync/driver"
)

// A key is what the requests of a line have in common: an entry that was won for one of them serves any other.
type key struct {
	queue       string
	kind        driver.Kind
	size        int64
	replaceable bool
}

// keyOf returns the key of a request.
func keyOf(r *Request) key { return key{r.Queue, r.Kind, r.Size, r.Replaceable} }

// sort returns where the free gates of a shard have a gate for such a key.
func (k key) sort() int {
	switch k.kind {
	case driver.Permit:
		return 2
	case driver.Read:
		return 1
	default:
		return 0
	}
}

// The lines of a Store are the gates that are in use. A program may lock as many paths as it has orders, so a path that nobody uses
// leaves nothing behind.
type lines [64]shard

// seed has a path be in another shard in each process.
var seed = maphash.MakeSeed()

// A shard is a part of the lines, with a lock of its own: callers on different paths seldom meet in one. Its mu is taken last: under the
// mu of a cohort, and never the other way round.
type shard struct {
	mu sync.Mutex
	of map[key]*gate // Invariant: uses > 0 for each.
	// free are gates that were in use, for the next path, or nil: by sort, for what a gate is is read without a lock. So a lock that is
	// free costs no memory.
	free [3]*gate
}

// through returns the gate of a request. It is in use until the caller calls use(-1).
func (s *Store) through(r *Request) *gate {
	k := keyOf(r)
	sh := &s.lines[maphash.String(seed, k.queue)%uint64(len(s.lines))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	g := sh.of[k]
	if g == nil {
		g = sh.add(s, k)
	}
	g.uses++
	return g
}

// add makes a gate for a path that is not in use. The caller holds mu.
func (sh *shard) add(s *Store, k key) *gate {
	if sh.of == nil {
		sh.of = map[key]*gate{}
	}
	g := sh.free[k.sort()]
	if g == nil {
		g = newGate(s, k, sh)
	}
	sh.free[k.sort()], g.key = nil, k
	sh.of[k] = g
	return g
}

// use counts another use of the gate, or with -1 the end of one: by a caller who is in a call, or by a grant that has not ended. After the
// last the gate leaves the lines, and the next caller makes another. So at any time all callers of a key who are in a call meet at one gate.
func (g *gate) use(n int) {
	g.shard.mu.Lock()
	defer g.shard.mu.Unlock()
	if g.uses += n; g.uses > 0 {
		return
	}
	delete(g.shard.of, g.key)
	if g.side().blank() {
		g.shard.free[g.key.sort()] = g
	}
}
