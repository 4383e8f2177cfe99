package deadlock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/farsync/farsync/driver"
)

// parse reads queues as a line of text: "/a m:1 m:2<3,4 | /b(5) s2:3". An entry is its kind with its units, its ID and those that
// it waits under.
func parse(t testing.TB, text string) (queues []Queue) {
	t.Helper()
	kinds := map[byte]driver.Kind{'m': driver.Exclusive, 'w': driver.Write, 'r': driver.Read, 's': driver.Permit, 'f': driver.Foreign}
	for part := range strings.SplitSeq(text, "|") {
		words := strings.Fields(part)
		q := Queue{Path: words[0]}
		if path, size, ok := strings.Cut(words[0], "("); ok {
			q.Path = path
			n, err := strconv.ParseInt(strings.TrimSuffix(size, ")"), 10, 64)
			require.NoError(t, err)
			q.Size = n
		}
		for _, word := range words[1:] {
			kind, rest, _ := strings.Cut(word, ":")
			e := Entry{Kind: kinds[kind[0]], Units: 1}
			if kind[1:] != "" {
				n, err := strconv.ParseInt(kind[1:], 10, 64)
				require.NoError(t, err)
				e.Units = n
			}
			id, under, nested := strings.Cut(rest, "<")
			if e.ID = id; nested {
				e.Under = strings.Split(under, ",")
			}
			q.Entries = append(q.Entries, e)
		}
		queues = append(queues, q)
	}
	return queues
}

func TestCycles(t *testing.T) {
	for _, row := range []struct{ name, queues, cycles string }{
		{"nothing", "/a", ""},
		{"a lock that is held, and a waiter", "/a m:1 m:2", ""},
		{"two locks in opposite orders", "/a m:A1 m:A2<B1 | /b m:B1 m:B2<A1", "A2 A1 B2 B1"},
		{"three", "/a m:A1 m:A2<C1 | /b m:B1 m:B2<A1 | /c m:C1 m:C2<B1", "A2 A1 B2 B1 C2 C1"},
		{"two goroutines of one process, each with one of the locks, are none", "/a m:A1 m:A2 | /b m:B1 m:B2", ""},
		{"a chain ends", "/a m:A1 m:A2<B1 | /b m:B1 m:B2<C1 | /c m:C1 m:C2", ""},
		{"an entry behind a cycle is not part of it", "/a m:A1 m:A2<B1 m:A3<C1 | /b m:B1 m:B2<A1 | /c m:C1 m:C2", "A2 A1 B2 B1"},
		{"one waits under its own lock", "/a m:A1 m:A2<A1", "A2 A1"},
		{"readers pass one another", "/a r:A1 r:A2<B1 | /b r:B1 r:B2<A1", ""},
		{"a writer between readers", "/a r:A1 w:A2 r:A3<B1 | /b m:B1 m:B2<A1", "A2 A1 B2 B1 A3"},
		{"two readers that would both write", "/a r:1 r:2 w:3<1 w:4<2", "3 1"},
		{"one unit is free behind a holder that goes", "/s(2) s:S1 s:S2 s:S3<B1 | /b m:B1 m:B2<S1", ""},
		{"all units are with those that wait", "/s(2) s:S1 s:S2 s:S3<B1 | /b m:B1 m:B2<S1 m:B3<S2", "S3 S1 B2 B1"},
		{"units that do not suffice", "/s(3) s:S1 s:S2 s2:S3<B1 | /b m:B1 m:B2<S1,S2", "S3 S2 B2 B1"},
		{"an entry that can never fit is no cycle", "/s(2) s3:S1 s:S2", ""},
		{"an unknown entry does not count", "/a m:A1 m:A2<gone", ""},
		{"two at once", "/a m:A1 m:A2<A1 | /b m:B1 m:B2<B1", "A2 A1 | B2 B1"},
		{"another program's entry", "/a f:A1 m:A2", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			queues := parse(t, row.queues)
			var got []string
			for _, cycle := range Cycles(queues) {
				var ids []string
				for _, p := range cycle {
					ids = append(ids, queues[p.Queue].Entries[p.Entry].ID)
				}
				got = append(got, strings.Join(ids, " "))
			}
			require.Equal(t, row.cycles, strings.Join(got, " | "))
		})
	}
}

// A world is what queues may come to: for each entry, whether it is gone.
type world struct {
	queues []Queue
	places []Place
	at     map[string]int
}

func newWorld(queues []Queue) world {
	w := world{queues: queues, at: map[string]int{}}
	for q, queue := range queues {
		for i, e := range queue.Entries {
			w.at[e.ID] = len(w.places)
			w.places = append(w.places, Place{q, i})
		}
	}
	return w
}

func (w world) entry(p Place) Entry { return w.queues[p.Queue].Entries[p.Entry] }

// granted is the rules of the primitives, read off their documentation.
func (w world) granted(p Place, gone uint64) bool {
	e, room := w.entry(p), w.queues[p.Queue].Size
	for i := range p.Entry {
		other := w.queues[p.Queue].Entries[i]
		switch {
		case gone&(1<<w.at[other.ID]) != 0:
		case e.Kind == driver.Read && other.Kind == driver.Read && w.granted(Place{p.Queue, i}, gone):
		case e.Kind == driver.Permit && other.Kind == driver.Permit && w.granted(Place{p.Queue, i}, gone):
			room -= other.Units
		default:
			return false
		}
	}
	return e.Kind != driver.Permit || e.Units <= room
}

// may reports whether the entry may be released next.
func (w world) may(p Place, gone uint64) bool {
	if !w.granted(p, gone) {
		return false
	}
	for i, other := range w.places {
		if gone&(1<<i) == 0 && slices.Contains(w.entry(other).Under, w.entry(p).ID) && !w.granted(other, gone) {
			return false
		}
	}
	return true
}

// stuck tries all orders of release, and returns the entries that are released in none.
func (w world) stuck() (ids []string) {
	seen, released := map[uint64]bool{0: true}, uint64(0)
	for next := []uint64{0}; len(next) > 0; {
		gone := next[len(next)-1]
		next = next[:len(next)-1]
		released |= gone
		for i, p := range w.places {
			then := gone | 1<<i
			if then != gone && !seen[then] && w.may(p, gone) {
				seen[then] = true
				next = append(next, then)
			}
		}
	}
	for i, p := range w.places {
		if released&(1<<i) == 0 {
			ids = append(ids, w.entry(p).ID)
		}
	}
	return ids
}

// drawQueues draws up to nine entries in up to four queues, so that all orders of release can be tried.
func drawQueues(t *rapid.T) (queues []Queue) {
	families := [][]driver.Kind{
		{driver.Exclusive, driver.Foreign}, {driver.Read, driver.Write}, {driver.Permit}, {driver.Candidate},
		{driver.Read, driver.Write, driver.Permit, driver.Exclusive}, // an entry that has found another family and is about to leave
	}
	var ids []string
	for q := range rapid.IntRange(1, 4).Draw(t, "queues") {
		kinds := rapid.SampledFrom(families).Draw(t, "family")
		queue := Queue{Path: fmt.Sprintf("/%d", q), Size: rapid.Int64Range(1, 3).Draw(t, "size")}
		for range rapid.IntRange(0, min(5, 9-len(ids))).Draw(t, "entries") {
			ids = append(ids, fmt.Sprint(len(ids)))
			queue.Entries = append(queue.Entries, Entry{
				ID: ids[len(ids)-1], Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
				Units: rapid.Int64Range(1, queue.Size).Draw(t, "units"),
			})
		}
		queues = append(queues, queue)
	}
	if len(ids) == 0 {
		return queues
	}
	for q := range queues {
		for i := range queues[q].Entries {
			// Any entry at all: what a survey shows need not make sense.
			queues[q].Entries[i].Under = rapid.SliceOfN(rapid.SampledFrom(ids), 0, 2).Draw(t, "under")
		}
	}
	return queues
}

func TestReductionIsThatOfAllOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := drawQueues(t)
		w, s := newWorld(queues), newState(queues)
		s.reduce()
		var left []string
		for _, e := range s.entries {
			if !e.gone {
				left = append(left, e.ID)
			}
		}
		stuck := w.stuck()
		require.Equal(t, stuck, left)
		cycles := Cycles(queues)
		require.Equal(t, len(stuck) > 0, len(cycles) > 0, "all permits fit, so what is stuck waits for one another")
		for _, cycle := range cycles {
			for i, p := range cycle {
				require.Contains(t, stuck, w.entry(p).ID)
				w.requireBlocks(t, s, p, cycle[(i+1)%len(cycle)])
			}
		}
	})
}

// requireBlocks fails unless p cannot go before next: if it waits, next is ahead of it and not its equal, and if it holds, next waits
// under it.
func (w world) requireBlocks(t require.TestingT, s *state, p, next Place) {
	e, other := w.entry(p), w.entry(next)
	if s.entries[w.at[e.ID]].granted {
		require.Contains(t, other.Under, e.ID)
		require.False(t, s.entries[w.at[other.ID]].granted)
		return
	}
	require.Equal(t, p.Queue, next.Queue)
	require.Less(t, next.Entry, p.Entry)
	require.False(t, e.Kind == driver.Read && other.Kind == driver.Read)
}

// A survey shows thousands of entries, and is reduced each second.
func TestLongChainsAreReducedInOneGo(t *testing.T) {
	const n = 10_000
	chain := make([]Queue, n) // each waits under the one before
	for i := range chain {
		chain[i].Entries = []Entry{{ID: fmt.Sprint("h", i)}, {ID: fmt.Sprint("w", i), Under: []string{fmt.Sprint("h", i+1)}}}
	}
	require.Empty(t, Cycles(chain))
	chain[n-1].Entries[1].Under = []string{"h0"}
	require.Len(t, Cycles(chain)[0], 2*n)

	readers := Queue{Entries: []Entry{{ID: "w", Kind: driver.Write}}} // a writer that waits for itself, and an entry behind it
	for i := range n {
		readers.Entries = append(readers.Entries, Entry{ID: fmt.Sprint(i), Kind: driver.Read})
	}
	readers.Entries[1].Under = []string{"w"}
	require.Equal(t, [][]Place{{{0, 1}, {0, 0}}}, Cycles([]Queue{readers}))
}

func BenchmarkCycles(b *testing.B) {
	var queues []Queue
	for i := range 5000 {
		queues = append(queues, Queue{Entries: []Entry{
			{ID: fmt.Sprint("h", i), Kind: driver.Exclusive}, {ID: fmt.Sprint("w", i), Under: []string{fmt.Sprint("h", (i+1)%5000)}},
		}})
	}
	for b.Loop() {
		Cycles(queues)
	}
}
