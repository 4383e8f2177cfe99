package recipe_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/farsync/farsync/recipe"
)

// granted is what the three rules promise, said without watching: who may run beside those ahead.
func granted(rule string, size, units int64, ahead []recipe.Entry) bool {
	for _, e := range ahead {
		units += e.Units
		if rule == "exclusive" || rule == "shared" && e.Kind != recipe.Read {
			return false
		}
	}
	return rule != "units" || units <= size || len(ahead) == 0
}

func TestRulesAgreeWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 6).Draw(t, "size")
		name := rapid.SampledFrom([]string{"exclusive", "shared", "units"}).Draw(t, "rule")
		rule := map[string]recipe.Rule{
			"exclusive": recipe.ExclusiveRule(), "shared": recipe.SharedRule(), "units": recipe.UnitsRule(size),
		}[name]
		entry := rapid.Custom(func(t *rapid.T) recipe.Entry {
			if name == "units" {
				return recipe.Entry{Kind: recipe.Permit, Units: rapid.Int64Range(1, size).Draw(t, "units")}
			}
			return recipe.Entry{
				Kind: rapid.SampledFrom([]recipe.Kind{recipe.Foreign, recipe.Write, recipe.Read}).Draw(t, "kind"), Units: 1,
			}
		})
		e := entry.Draw(t, "e")
		ahead := rapid.SliceOfN(entry, 0, 8).Draw(t, "ahead")
		for i := range ahead {
			ahead[i].Revision = int64(i + 1)
		}

		given := slices.Clone(ahead)
		blockers := rule.Blockers(e, ahead)
		require.Equal(t, given, ahead, "the argument is the caller's")
		require.Equal(t, granted(name, size, e.Units, ahead), len(blockers) == 0)
		require.True(t, slices.IsSortedFunc(blockers, func(a, b recipe.Entry) int { return int(b.Revision - a.Revision) }),
			"nearest first")

		// While all that it watches live, e may not run, whoever else leaves: no wake-up is missed.
		left := slices.DeleteFunc(slices.Clone(ahead), func(other recipe.Entry) bool {
			watched := slices.ContainsFunc(blockers, func(b recipe.Entry) bool { return b.Revision == other.Revision })
			return !watched && rapid.Bool().Draw(t, "leaves")
		})
		if len(blockers) > 0 {
			require.False(t, granted(name, size, e.Units, left))
			require.NotEmpty(t, rule.Blockers(e, left))
		}
		// It watches no more than it must: without any one of those, the others would not keep it waiting.
		for i := range blockers {
			rest := slices.Delete(slices.Clone(blockers), i, i+1)
			if i == len(blockers)-1 { // the farthest: the others are the nearest
				require.True(t, granted(name, size, e.Units, rest))
			}
		}
		if rule.Nearest() && len(ahead) > 0 {
			require.Equal(t, blockers, rule.Blockers(e, ahead[len(ahead)-1:]), "the nearest alone decides")
		}
	})
}

// Holders leave in any order; whoever is not granted must be watching somebody who will let it look again.
func TestNobodyIsStranded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 5).Draw(t, "size")
		rule := recipe.UnitsRule(size)
		queue := make([]recipe.Entry, rapid.IntRange(1, 12).Draw(t, "n"))
		watches := map[int64][]int64{} // of those who wait
		look := func(i int) {
			delete(watches, queue[i].Revision)
			for _, b := range rule.Blockers(queue[i], queue[:i]) {
				watches[queue[i].Revision] = append(watches[queue[i].Revision], b.Revision)
			}
		}
		for i := range queue {
			queue[i] = recipe.Entry{Revision: int64(i + 1), Units: rapid.Int64Range(1, size).Draw(t, "units")}
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
// leave out of order, room appears elsewhere, and nobody tells.
func TestPredecessorRuleStrandsAWaiter(t *testing.T) {
	const size = 2
	queue := []recipe.Entry{{Revision: 1, Units: 1}, {Revision: 2, Units: 1}, {Revision: 3, Units: 1}}
	waiter, ahead := queue[2], queue[:2]
	predecessor := func(ahead []recipe.Entry) []recipe.Entry {
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
	rule := recipe.UnitsRule(size)
	require.ElementsMatch(t, ahead, rule.Blockers(waiter, ahead))
	require.Empty(t, rule.Blockers(waiter, left))
}

// A sum of units can run over, and must not make room.
func TestUnitsDoNotRunOver(t *testing.T) {
	rule := recipe.UnitsRule(3)
	ahead := []recipe.Entry{
		{Revision: 1, Units: 3}, {Revision: 2, Units: math.MaxInt64}, {Revision: 3, Units: 1},
	}
	require.NotEmpty(t, rule.Blockers(recipe.Entry{Revision: 4, Units: 1}, ahead))
	require.NotEmpty(t, recipe.UnitsRule(math.MaxInt64).Blockers(recipe.Entry{Units: math.MaxInt64}, ahead))
}
