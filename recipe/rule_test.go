package recipe

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/farsync/farsync/driver"
)

// granted is what the three rules promise, said without watching: which entry may run beside those ahead.
func granted(rule string, size, units int64, ahead []driver.Entry) bool {
	for _, e := range ahead {
		units += e.Units
		if rule == "exclusive" || rule == "shared" && e.Kind != driver.Read {
			return false
		}
	}
	return rule != "units" || units <= size || len(ahead) == 0
}

func TestRulesAgreeWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 6).Draw(t, "size")
		name := rapid.SampledFrom([]string{"exclusive", "shared", "units"}).Draw(t, "rule")
		r := map[string]rule{
			"exclusive": ruleOf(driver.Exclusive, 0), "shared": ruleOf(driver.Read, 0), "units": unitsRule(size),
		}[name]
		entry := rapid.Custom(func(t *rapid.T) driver.Entry {
			if name == "units" {
				return driver.Entry{Kind: driver.Permit, Units: rapid.Int64Range(1, size).Draw(t, "units")}
			}
			return driver.Entry{
				Kind: rapid.SampledFrom([]driver.Kind{driver.Foreign, driver.Write, driver.Read}).Draw(t, "kind"), Units: 1,
			}
		})
		e := entry.Draw(t, "e")
		ahead := rapid.SliceOfN(entry, 0, 8).Draw(t, "ahead")
		for i := range ahead {
			ahead[i].Revision = int64(i + 1)
		}

		given := slices.Clone(ahead)
		blockers := r.blockers(e, ahead)
		require.Equal(t, given, ahead, "the argument is the caller's")
		require.Equal(t, granted(name, size, e.Units, ahead), len(blockers) == 0)
		if name == "units" && len(blockers) == 0 {
			taken := e.Units
			for _, other := range ahead {
				taken += other.Units
			}
			require.Equal(t, size-taken, r.left(e, ahead))
		}
		require.True(t, slices.IsSortedFunc(blockers, func(a, b driver.Entry) int { return int(b.Revision - a.Revision) }),
			"nearest first")

		// While all that it watches live, e may not run, whatever else leaves: no wake-up is missed.
		left := slices.DeleteFunc(slices.Clone(ahead), func(other driver.Entry) bool {
			watched := slices.ContainsFunc(blockers, func(b driver.Entry) bool { return b.Revision == other.Revision })
			return !watched && rapid.Bool().Draw(t, "leaves")
		})
		if len(blockers) > 0 {
			require.False(t, granted(name, size, e.Units, left))
			require.NotEmpty(t, r.blockers(e, left))
		}
		// It watches no more than it must: without any one of those, the others would not keep it waiting.
		for i := range blockers {
			rest := slices.Delete(slices.Clone(blockers), i, i+1)
			if i == len(blockers)-1 { // the farthest: the others are the nearest
				require.True(t, granted(name, size, e.Units, rest))
			}
		}
		if !r.shared && r.size == 0 && len(ahead) > 0 {
			require.Equal(t, blockers, r.blockers(e, ahead[len(ahead)-1:]), "the nearest alone decides")
		}
	})
}

// Holders leave in any order; an entry that is not granted must be watching one whose end lets it look again.
func TestNoWaiterIsStranded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 5).Draw(t, "size")
		rule := unitsRule(size)
		queue := make([]driver.Entry, rapid.IntRange(1, 12).Draw(t, "n"))
		watches := map[int64][]int64{} // of those that wait
		look := func(i int) {
			delete(watches, queue[i].Revision)
			for _, b := range rule.blockers(queue[i], queue[:i]) {
				watches[queue[i].Revision] = append(watches[queue[i].Revision], b.Revision)
			}
		}
		for i := range queue {
			queue[i] = driver.Entry{Revision: int64(i + 1), Units: rapid.Int64Range(1, size).Draw(t, "units")}
			look(i)
		}
		for len(queue) > 0 {
			var holders []int
			var used int64
			for i, e := range queue {
				if watches[e.Revision] == nil {
					holders, used = append(holders, i), used+e.Units
				}
			}
			require.NotEmpty(t, holders, "everybody waits")
			require.LessOrEqual(t, used, size)
			i := rapid.SampledFrom(holders).Draw(t, "leaves")
			gone := queue[i].Revision
			queue = slices.Delete(queue, i, i+1)
			for i, e := range queue {
				if slices.Contains(watches[e.Revision], gone) {
					look(i)
				}
			}
		}
	})
}

// Curator's LockInternals has the one at place n of a queue with room for size watch the one at place n-size. When holders
// leave out of order, room appears elsewhere, unseen.
func TestPredecessorRuleStrandsAWaiter(t *testing.T) {
	const size = 2
	var queue []driver.Entry
	for i := range 3 {
		queue = append(queue, driver.Entry{Kind: driver.Permit, Revision: int64(i + 1), Units: 1})
	}
	waiter, ahead := queue[2], queue[:2]
	predecessor := func(ahead []driver.Entry) []driver.Entry {
		if len(ahead) < size {
			return nil
		}
		return ahead[len(ahead)-size:][:1]
	}
	watched := predecessor(ahead)
	require.Equal(t, queue[:1], watched)
	left := queue[:1] // the second has left, out of order
	require.Empty(t, predecessor(left), "it may run")
	require.Contains(t, left, watched[0], "but what it watches lives, unchanged: it sleeps on")

	// Ours watches both.
	rule := unitsRule(size)
	require.ElementsMatch(t, ahead, rule.blockers(waiter, ahead))
	require.Empty(t, rule.blockers(waiter, left))
}

// A sum of units can run over, and must not make room.
func TestUnitsDoNotRunOver(t *testing.T) {
	rule := unitsRule(3)
	ahead := []driver.Entry{
		{Kind: driver.Permit, Units: 3}, {Kind: driver.Permit, Units: math.MaxInt64}, {Kind: driver.Permit, Units: 1},
	}
	require.NotEmpty(t, rule.blockers(driver.Entry{Revision: 4, Units: 1}, ahead))
	require.NotEmpty(t, unitsRule(math.MaxInt64).blockers(driver.Entry{Units: math.MaxInt64}, ahead))
}

// What is behind an entry that waits does not hold either, so the holders are those at the head.
func TestHoldersAreAtTheHead(t *testing.T) {
	entry := func(k driver.Kind, units int64) driver.Entry { return driver.Entry{Kind: k, Units: units} }
	read, write, mutex := entry(driver.Read, 1), entry(driver.Write, 1), entry(driver.Exclusive, 1)
	for _, row := range []struct {
		queue []driver.Entry
		size  int64
		held  int
	}{
		{nil, 1, 0},
		{[]driver.Entry{mutex, mutex, mutex}, 1, 1},
		{[]driver.Entry{read, read, write, read}, 1, 2},
		{[]driver.Entry{write, read, read}, 1, 1},
		{[]driver.Entry{entry(driver.Permit, 2), entry(driver.Permit, 3), entry(driver.Permit, 1)}, 5, 2},
		{[]driver.Entry{entry(driver.Permit, 2), entry(driver.Permit, 4), entry(driver.Permit, 1)}, 5, 1},
		{[]driver.Entry{entry(driver.Foreign, 1), read}, 1, 1},
	} {
		require.Equal(t, row.held, holders(row.queue, row.size), "%v", row.queue)
	}
}

func TestFamilies(t *testing.T) {
	const at = "mrwpcf"
	kinds := []driver.Kind{driver.Exclusive, driver.Read, driver.Write, driver.Permit, driver.Candidate, driver.Foreign}
	for i, heads := range []string{"mf", "rwf", "rwf", "p", "cf"} { // behind which each may stand
		for j, head := range kinds {
			require.Equal(t, !strings.Contains(heads, at[j:j+1]), apart(kinds[i], head), "%v behind %v", kinds[i], head)
		}
	}
}

// An entry of another family takes all units there are.
func TestIntrudersLeaveNoRoom(t *testing.T) {
	permit := driver.Entry{Kind: driver.Permit, Units: 1}
	intruder := driver.Entry{Kind: driver.Exclusive, Units: 1, Revision: 7}
	require.Equal(t, []driver.Entry{intruder}, unitsRule(9).blockers(permit, []driver.Entry{permit, intruder, permit}))
}
