//go:build unix

// Torture does to locks what can go wrong, on real servers and with real processes, and checks what their clients saw.
//
//	go run ./internal/torture -store etcd -primitive mutex -faults wire,node,client,entry -for 60s -seed 1
//
// Each store runs as it would for its users: three servers of etcd or ZooKeeper, one of Redis, PostgreSQL or MariaDB,
// an SQLite file. A quorum has three services, two of Redis and one of PostgreSQL, and is a store of its own here.
// Clients are processes of their own, with several Stores each. The seed decides which faults happen, and not how the
// processes interleave. So the same seed is the same torture and not the same history.
//
// The exit status is 1 if anything was found: two holders at once, tokens that do not rise, a stale write that was let
// in, a call that does not return, an entry that stays, a goroutine that does not end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync/embedtest"
)

func main() {
	// Many processes with small heaps would be busy with collecting them. Servers and clients inherit it.
	if os.Getenv("GOGC") == "" {
		_ = os.Setenv("GOGC", "400")
		debug.SetGCPercent(400)
	}
	embedtest.Child()
	work()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	found, err := command(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	case found:
		os.Exit(1)
	}
}

const defaultTTL = 2 * time.Second

// command runs the campaigns that the arguments ask for, one for each store, and reports whether anything was found.
func command(ctx context.Context, arguments []string) (found bool, err error) {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	store := flags.String("store", strings.Join(stores, ","), "stores, one after the other")
	primitive := flags.String("primitive", strings.Join(primitives, ","), "what is locked, all at the same time")
	faults := flags.String("faults", strings.Join(tiers, ","), "tiers of faults, or none")
	lasts := flags.Duration("for", time.Minute, "how long the faults of each store last")
	seed := flags.Uint64("seed", 0, "decides what goes wrong; 0 is another one each time")
	recipe := flags.String("recipe", ours, "whose locks: farsync, or stock for those of the client library")
	ttl := flags.Duration("ttl", defaultTTL, "of the sessions, whole seconds")
	sparse := flags.Bool("sparse", false, "few clients on few paths, and faults one at a time, instead of as many as two cores bear")
	dir := flags.String("dir", "", "keep servers' logs and histories in this directory")
	prove := flags.Bool("prove", false, "torture locks that are known to be wrong, and show what was found in them")
	only := flags.String("only", "", "with -prove: only those whose name contains this")
	short := flags.Bool("short", false, "with -prove: have tests of make test find the mutants, without a campaign")
	if err := flags.Parse(arguments); err != nil {
		return false, err
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1e9)
	}
	c := campaign{
		Recipe: *recipe, Primitives: listed(*primitive), Tiers: listed(*faults), For: *lasts, Seed: *seed, TTL: *ttl, sparse: *sparse,
	}
	if *faults == "none" {
		c.Tiers = nil
	}
	if c.Recipe == stock {
		c.Primitives = []string{mutex}
	}
	on := listed(*store)
	if err := oneOf(on, stores); err != nil {
		return false, err
	}
	if err := errors.Join(oneOf(c.Primitives, primitives), oneOf(c.Tiers, tiers), oneOf([]string{c.Recipe}, []string{ours, stock})); err != nil {
		return false, err
	}
	if c.Worker, err = os.Executable(); err != nil {
		return false, err
	}
	top := *dir
	if top == "" {
		if top, err = os.MkdirTemp("", "farsync-torture"); err != nil {
			return false, err
		}
		// A server that refuses to run as root runs as another user, who has to get there.
		if err := os.Chmod(top, 0o711); err != nil { //nolint:gosec // as above
			return false, err
		}
		defer func() {
			if !found && err == nil {
				_ = os.RemoveAll(top)
			} else {
				fmt.Printf("histories and logs: %s\n", top)
			}
		}()
	}
	if *prove {
		c.Dir = top
		return c.prove(ctx, on, *only, *short)
	}
	asked := c.Primitives
	if !slices.ContainsFunc(on, func(name string) bool { return len(playable(name, asked)) > 0 }) {
		return false, fmt.Errorf("none of %s can be had on %s", strings.Join(asked, ", "), strings.Join(on, ", "))
	}
	for _, name := range on {
		c.on(name)
		c.Dir = filepath.Join(top, name)
		if c.Primitives = playable(name, asked); len(c.Primitives) == 0 {
			continue
		}
		fmt.Printf("== %s, %s, faults: %s, for %v, TTL %v, seed %d\n",
			name, strings.Join(c.Primitives, " "), strings.Join(c.Tiers, " "), c.For, c.TTL, c.Seed)
		v, err := c.run(ctx, func(format string, a ...any) { fmt.Printf(format+"\n", a...) })
		if err != nil {
			return found, fmt.Errorf("%s: %w", name, err)
		}
		found = c.print(v) || found
	}
	return found, nil
}

func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func oneOf(names, of []string) error {
	for _, name := range names {
		if !slices.Contains(of, name) {
			return fmt.Errorf("%q is none of %s", name, strings.Join(of, ", "))
		}
	}
	return nil
}

// print shows a verdict, and reports whether anything was found.
func (c *campaign) print(v *verdict) (found bool) {
	fmt.Printf("   seed %d, %v, %d clients of %d Stores in %d processes on %d paths, %.0f s\n",
		c.Seed, c.Tiers, c.clients(), c.Processes*c.Machines, c.Processes, c.Paths, v.took.Seconds())
	fmt.Printf("   %d calls, %d granted, %d failed, %d lost\n", v.Operations, v.Granted, v.Failed, v.Lost)
	fmt.Printf("   %d writes, %d stale ones refused\n", v.writes, v.refused)
	fmt.Printf("   %d checked by models, %d parts undecided\n", v.Modelled, v.Undecided)
	n := 0
	for _, what := range slices.Sorted(maps.Keys(v.faults)) {
		n += v.faults[what]
		fmt.Printf("   %5d  %s\n", v.faults[what], what)
	}
	fmt.Printf("   %5d  faults\n", n)
	for _, what := range slices.Sorted(maps.Keys(v.which)) {
		fmt.Printf("   %5d  %s, of these\n", v.which[what], what)
	}
	const most = 20
	for i, violation := range v.Violations {
		if i == most {
			fmt.Printf("   … and %d more\n", len(v.Violations)-most)
			break
		}
		fmt.Printf("   VIOLATION: %v\n", violation)
	}
	fmt.Printf("   %d violations\n", len(v.Violations))
	// A fence that nothing was thrown at has held nothing back.
	untried := v.refused == 0 && c.For >= time.Minute && slices.Contains(c.Tiers, tierClient) &&
		slices.ContainsFunc(c.Primitives, func(p string) bool { return p != semaphore })
	if untried {
		fmt.Println("   UNTRIED: there was no stale write to refuse")
	}
	return len(v.Violations) > 0 || v.Undecided > 0 || untried
}
