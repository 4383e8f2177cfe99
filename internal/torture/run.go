//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/torture/history"
)

// A campaign says what is to be tortured, how, and for how long.
type campaign struct {
	Store      string
	Recipe     string
	Primitives []string
	Tiers      []string
	For        time.Duration // with faults
	Seed       uint64
	TTL        time.Duration
	crowd
	sparse bool   // few clients, whatever the store
	Worker string // the executable of the workers
	Dir    string
}

// on chooses a store, and the crowd for it.
func (c *campaign) on(store string) {
	if c.Store, c.crowd = store, few; !c.sparse {
		c.crowd = many(store)
	}
}

const (
	leastHang = 30 * time.Second
)

// hang is after how long what should have happened will not.
func (c *campaign) hang() time.Duration { return max(leastHang, 10*c.TTL) }

// A verdict is what came of a campaign.
type verdict struct {
	history.Report
	account
	took          time.Duration
	faults, which map[string]int
	// found is how long after the start the first violation was there to be seen; 0 if none was.
	found time.Duration
}

// tallies counts faults.
type tallies struct {
	mu    sync.Mutex
	of    map[string]int
	under map[string]int // way
	which map[string]int // counts that have a figure to reach
}

// note counts faults by more than their names: in which situation they happened.
func (t *tallies) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.which[what]++
}

func (t *tallies) begin(what string) func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[what]++
	t.under[what]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.under[what]--; t.under[what] == 0 {
			delete(t.under, what)
		}
	}
}

// now returns how many there were, and what is broken.
func (t *tallies) now() (n int, under string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.of {
		n += of
	}
	return n, strings.Join(slices.Sorted(maps.Keys(t.under)), ", ")
}

// run plays a campaign. Its error says that it could not be played; what was found is in the verdict.
func (c *campaign) run(ctx context.Context, say func(format string, a ...any)) (*verdict, error) {
	histories := filepath.Join(c.Dir, "histories")
	if err := os.MkdirAll(histories, 0o711); err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, restartIn)
	defer cancel()
	servers, err := startService(starting, c.Dir, *c)
	if err != nil {
		return nil, err
	}
	defer func() { _ = servers.close() }()
	// The path of a unix socket is short.
	sockets, err := os.MkdirTemp("", "torture")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(sockets)
	protected, err := serve(filepath.Join(sockets, "r"))
	if err != nil {
		return nil, err
	}
	defer protected.close()
	var wires []loom
	defer func() {
		for _, l := range wires {
			each(l, wire.close)
		}
	}()
	for len(servers.members) > 0 && len(wires) < c.Processes {
		wires = append(wires, nil)
		for range c.Machines {
			w, err := lay(servers.endpoints)
			wires[len(wires)-1] = append(wires[len(wires)-1], w)
			if err != nil {
				return nil, err
			}
		}
	}
	if c.Store == onQuorum { // a service is cut off from all clients, for nothing else talks to it
		var cut []*knife // by the one row of faults that does so
		servers.isolate = func(member int) {
			for _, w := range slices.Concat(wires...) {
				w.far[member].cut()
				cut = append(cut, w.far[member])
			}
		}
		servers.heal = func() {
			each(cut, (*knife).heal)
			cut = nil
		}
	}
	started, begun := time.Now(), history.Now()
	workers, err := newCrew(c.Worker, c.Processes, func(place, life int) part {
		p := part{
			Process: fmt.Sprintf("%d-%d", place, life), Recipe: c.Recipe, Store: c.Store, Wires: slices.Repeat([][]string{servers.endpoints}, c.Machines),
			Primitives: c.Primitives, Clients: c.Clients, Paths: c.Paths, TTL: c.TTL, Hang: c.hang(), Seed: c.Seed + uint64(place)<<32 + uint64(life)<<16,
			Dir: histories, Resource: filepath.Join(sockets, "r"),
		}
		if len(wires) > 0 {
			for i, w := range wires[place] {
				p.Wires[i] = w.endpoints()
			}
		}
		return p
	})
	if err != nil {
		return nil, err
	}
	defer workers.abandon()
	count := &tallies{of: map[string]int{}, under: map[string]int{}, which: map[string]int{}}
	t := torment{campaign: c, servers: servers, wires: wires, workers: workers, protected: protected, count: count}
	broken := t.run(ctx, func() {
		n, under := count.now()
		so := protected.count()
		say("%5.0f s: %d grants, %d stale writes refused, %d faults  %s", time.Since(started).Seconds(), so.grants, so.refused, n, under)
	})
	say("%5.0f s: the faults are over", time.Since(started).Seconds())

	v := &verdict{faults: count.of, which: count.which}
	complaints, deaths := workers.dismiss(c.hang())
	all, unread := history.Load(histories, deaths)
	if err := errors.Join(broken, unread); err != nil {
		return nil, err
	}
	promises := history.Promises{
		Size: semaphoreSize, Unfenced: c.Recipe == stock && c.Store != onEtcd, Stale: c.Store == onZooKeeper, TTL: c.TTL,
	}
	if c.Store == onRedis {
		promises.Ends = servers.kills
	}
	v.Report = history.Check(all, promises)
	for _, text := range complaints {
		v.add("worker", text)
	}
	if n := protected.stale(); n > 0 {
		v.add("stale", fmt.Sprintf("%d stale writes were let in", n))
	}
	if err := c.orphans(ctx, servers, v); err != nil {
		return nil, err
	}
	v.account, v.took = protected.count(), time.Since(started)
	if first := v.First(); first != history.Never {
		v.found = time.Duration(first - begun)
	}
	return v, nil
}

func (v *verdict) add(rule, text string) {
	v.Violations = append(v.Violations, history.Violation{Rule: rule, Queue: "/torture", Text: text, At: history.Now()})
}

// dismiss has all processes end, and returns what they have to say, and when those ended that were killed.
func (c *crew) dismiss(hang time.Duration) (complaints []string, deaths map[string]int64) {
	deaths = map[string]int64{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, w := range c.active {
		wg.Go(func() {
			finished := w.finish(3 * hang) // each of what it still has to do may take one
			mu.Lock()
			defer mu.Unlock()
			if !finished {
				complaints = append(complaints, fmt.Sprintf("hung: %s does not end: %s", w.name, w.errors.Name()))
			}
			for _, text := range w.complaints() {
				complaints = append(complaints, w.name+": "+text)
			}
		})
	}
	wg.Wait()
	for _, w := range c.gone {
		deaths[w.name] = w.death
		for _, text := range w.said {
			complaints = append(complaints, w.name+": "+text)
		}
	}
	return complaints, deaths
}

// orphans waits until nothing stands in any of the queues. The entries of a killed process go with its session.
func (c *campaign) orphans(ctx context.Context, servers *service, v *verdict) error {
	ctx, cancel := context.WithTimeout(ctx, 2*c.hang())
	defer cancel()
	for _, at := range sites(c.Store, servers.endpoints) {
		if err := c.orphansAt(ctx, at, v); err != nil {
			return err
		}
	}
	return nil
}

func (c *campaign) orphansAt(ctx context.Context, at site, v *verdict) error {
	store, leave, err := openStore(ctx, at.store, at.endpoints, farsync.Options{TTL: c.TTL})
	if err != nil {
		return err
	}
	defer func() {
		_ = store.Close()
		leave()
	}()
	for _, primitive := range c.Primitives {
		halves := queuesOf(c.Paths, c.Primitives, primitive)
		for _, queue := range slices.Concat(halves[0], halves[1]) {
			over := time.Now().Add(c.hang())
			for {
				list, err := store.Participants(ctx, queue)
				if err != nil {
					return err
				}
				if len(list) == 0 {
					break
				}
				if time.Now().After(over) {
					v.add("orphan", fmt.Sprintf("%s: %v", queue, list))
					break
				}
				if err := pause.For(ctx, 20*time.Millisecond); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
