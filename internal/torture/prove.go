//go:build unix

package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync/internal/torture/history"
)

// A suspect is what the proof looks at.
type suspect struct {
	name             string
	store, primitive string
	recipe           string
	mutant           *mutant
	// right is true for what nothing is to be found in.
	right bool
}

// rounds is how often what is known to be wrong is tortured until something is found, each time with the next seed.
const rounds = 4

// prove tortures locks that are known to be wrong until something is found, and farsync for as long. It prints a table,
// and reports whether one of the first escaped, or something was found in the last. Only those are tried whose store is
// among these, and whose name contains the text. With short there is no campaign: a mutant has to be found by its tests
// of make test.
func (c campaign) prove(ctx context.Context, on []string, only string, short bool) (escaped bool, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return false, err
	}
	list := []suspect{
		{name: "concurrency.Mutex of etcd's client", store: onEtcd, primitive: mutex, recipe: stock},
		{name: "concurrency.Election of etcd's client", store: onEtcd, primitive: election, recipe: stock},
		{name: "zk.Lock of go-zookeeper", store: onZooKeeper, primitive: mutex, recipe: stock},
		{name: "redsync, used as its README shows", store: onRedis, primitive: mutex, recipe: stock},
	}
	for i := range mutants {
		m := &mutants[i]
		list = append(list, suspect{name: m.name, store: m.store, primitive: m.primitive, recipe: ours, mutant: m})
	}
	for _, store := range stores {
		list = append(list, suspect{name: "farsync as it is", store: store, recipe: ours, right: true})
	}
	top, own, all := c.Dir, c.Worker, c.Tiers
	fmt.Printf("| | store | faults | found after | grants by then | by |\n|---|---|---|--:|--:|---|\n")
	for i, s := range list {
		if !slices.Contains(on, s.store) && s.store != inMemory || !strings.Contains(s.name, only) {
			continue
		}
		c.on(s.store)
		c.Dir, c.Recipe, c.Worker = filepath.Join(top, fmt.Sprint(i)), s.recipe, own
		if c.Primitives = []string{s.primitive}; s.primitive == "" {
			c.Primitives = playable(s.store, primitives)
		}
		c.Tiers = all
		if s.mutant != nil && s.mutant.tiers != nil {
			c.Tiers = s.mutant.tiers
		}
		if s.mutant != nil {
			caught, err := c.examine(ctx, root, s.mutant, short)
			if err != nil {
				return escaped, err
			}
			escaped = escaped || !caught
		}
		if short || s.mutant != nil && s.primitive == "" {
			continue
		}
		if s.mutant != nil {
			if c.Worker, err = s.mutant.build(ctx, root, filepath.Join(c.Dir, "mutant")); err != nil {
				return escaped, err
			}
		}
		found, err := c.search(ctx, s)
		if err != nil {
			return escaped, fmt.Errorf("%s: %w", s.name, err)
		}
		escaped = escaped || found == s.right
	}
	return escaped, nil
}

// examine has a mutant's tests find it, and prints a row of the table for the tests of make test, and another row for
// the tests of make long.
func (c campaign) examine(ctx context.Context, root string, m *mutant, short bool) (caught bool, err error) {
	for _, suite := range []struct {
		name  string
		tests [2]string
		short bool
	}{{"make test", m.tests, true}, {"make long", m.long, false}} {
		if suite.tests[0] == "" || short && !suite.short {
			continue
		}
		began := time.Now()
		names, err := m.failing(ctx, root, filepath.Join(c.Dir, "mutant"), suite.tests, suite.short)
		if err != nil {
			return false, err
		}
		by := strings.Join(names, ", ")
		if by == "" {
			by = "nothing by " + suite.tests[1]
		}
		fmt.Printf("| %s | %s | those of a test of %s | %.0f s | | %s |\n", m.name, m.store, suite.name, time.Since(began).Seconds(), by)
		if len(names) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// search tortures until something is found, and prints a row of the table.
func (c campaign) search(ctx context.Context, s suspect) (found bool, err error) {
	var before time.Duration
	grants := 0
	top, seed := c.Dir, c.Seed
	for round := range rounds {
		c.Dir, c.Seed = filepath.Join(top, fmt.Sprint(round)), seed+uint64(round)
		v, err := c.run(ctx, func(string, ...any) {})
		if err != nil {
			return false, err
		}
		grants += v.Granted
		if len(v.Violations) > 0 {
			fmt.Printf("| %s | %s | %s | %.0f s | %d | %s |\n", s.name, s.store, strings.Join(c.Tiers, " "), (before + v.found).Seconds(), grants, rules(v.Violations))
			return true, nil
		}
		before += c.For
	}
	fmt.Printf("| %s | %s | %s | nothing in %.0f s | %d | |\n", s.name, s.store, strings.Join(c.Tiers, " "), before.Seconds(), grants)
	return false, nil
}

// rules names what was violated, each once.
func rules(list []history.Violation) string {
	seen := map[string]bool{}
	for _, v := range list {
		seen[v.Rule] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}
