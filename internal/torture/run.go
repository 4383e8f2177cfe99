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

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
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
	Processes  int
	Worker     string // the executable of the workers
	Dir        string
}

const (
	leastHang = 30 * time.Second
	// clientRows is how many processes may be stopped at the same time.
	clientRows = 2
	// aimFor is for how long a fault waits for a holder that it can hit.
	aimFor = 3 * time.Second
)

// hang is after how long what should have happened will not.
func (c *campaign) hang() time.Duration { return max(leastHang, 10*c.TTL) }

// A verdict is what came of a campaign.
type verdict struct {
	history.Report
	account
	took   time.Duration
	faults map[string]int
	// found is how long after the start the first violation was there to be seen; 0 if none was.
	found time.Duration
}

// tallies counts faults.
type tallies struct {
	mu    sync.Mutex
	of    map[string]int
	under map[string]int // way
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
	var wires []wire
	defer func() {
		for _, w := range wires {
			w.close()
		}
	}()
	for len(servers.members) > 0 && len(wires) < c.Processes {
		w, err := lay(servers.endpoints)
		wires = append(wires, w)
		if err != nil {
			return nil, err
		}
	}

	if c.Store == onQuorum { // a service is cut off from all clients, for they are the only ones that it has to do with
		servers.isolate = func(member int) {
			for _, w := range wires {
				w.far[member].Cut()
			}
		}
		servers.heal = func() {
			for _, w := range wires {
				each(w.far, (*embedtest.Proxy).Heal)
			}
		}
	}
	started, begun := time.Now(), history.Now()
	workers, err := newCrew(c.Worker, c.Processes, func(place, life int) part {
		p := part{
			Process: fmt.Sprintf("%d-%d", place, life), Recipe: c.Recipe, Store: c.Store, Endpoints: servers.endpoints,
			Primitives: c.Primitives, TTL: c.TTL, Hang: c.hang(), Seed: c.Seed + uint64(place)<<32 + uint64(life)<<16,
			Dir: histories, Resource: filepath.Join(sockets, "r"),
		}
		if len(wires) > 0 {
			p.Endpoints = wires[place].endpoints()
		}
		return p
	})
	if err != nil {
		return nil, err
	}
	defer workers.abandon()
	count := &tallies{of: map[string]int{}, under: map[string]int{}}
	broken := c.torment(ctx, servers, wires, workers, protected, count, func() {
		n, under := count.now()
		so := protected.count()
		say("%5.0f s: %d grants, %d stale writes refused, %d faults  %s", time.Since(started).Seconds(), so.grants, so.refused, n, under)
	})
	say("%5.0f s: the faults are over", time.Since(started).Seconds())

	v := &verdict{faults: count.of}
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

// torment breaks one thing after another, several at the same time, for as long as the campaign lasts. Then all is whole.
func (c *campaign) torment(
	ctx context.Context, servers *service, wires []wire, workers *crew, protected *resource, count *tallies, report func(),
) error {
	ctx, cancel := context.WithTimeout(ctx, c.For)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	row := func(tier string, row int, of shape, happen func(context.Context, fault) error) {
		if slices.Contains(c.Tiers, tier) {
			group.Go(func() error {
				from := newSchedule(tier, c.Seed, uint64(row), c.TTL, of)
				return inject(ctx, from, func(ctx context.Context, f fault) error {
					defer count.begin(f.What)()
					return happen(ctx, f)
				})
			})
		}
	}
	for place, w := range wires {
		row(tierWire, place, single, func(ctx context.Context, f fault) error {
			proceed := func(time.Duration) {}
			if f.Aimed && f.For >= c.TTL/2 {
				proceed = aim(ctx, protected, func(process string) bool { return process == workers.at(place).name })
			}
			w.suffer(ctx, f, func() { proceed(f.For + c.TTL/2) })
			return nil
		})
	}
	for i, some := range servers.rows {
		row(tierNode, i, some.shape, func(ctx context.Context, f fault) error {
			return servers.onNode(ctx, f, some.members, func(server int) (undo func()) {
				if !f.Aimed || some.shape == ensemble && f.What == nodeKill { // then there are others for its clients
					return func() {}
				}
				place := f.pick(c.Processes)
				of := func(process string) bool { return process == workers.at(place).name }
				if some.shape == ensemble {
					// A process goes with the server, and holds a lock for longer than the others take to give it away.
					undo = wires[place].only(server)
					aim(ctx, protected, of)(f.For + 3*c.TTL)
					return undo
				}
				// A holder is cut off, and does not hear that the server has forgotten it.
				proceed := aim(ctx, protected, of)
				heal := wires[place].only(-1)
				proceed(f.For + 3*c.TTL)
				return func() {
					_ = pause.For(ctx, c.TTL)
					heal()
				}
			})
		})
	}
	for i := range clientRows {
		row(tierClient, i, single, func(ctx context.Context, f fault) error {
			// Each row has processes of its own.
			mine := func(place int) bool { return place%clientRows == i }
			place := i + clientRows*f.pick((c.Processes-i+clientRows-1)/clientRows)
			proceed := func(time.Duration) {}
			if f.Aimed {
				proceed = aim(ctx, protected, func(process string) bool {
					at, ok := workers.place(process)
					if ok && mine(at) {
						place = at
					}
					return ok && mine(at)
				})
			}
			if f.What == clientKill {
				err := workers.replace(place)
				proceed(0)
				return err
			}
			resume := workers.stop(place)
			proceed(c.TTL / 2)
			_ = pause.For(ctx, f.For)
			resume()
			return nil
		})
	}
	if servers.meddle != nil && c.Recipe == ours {
		var queues []string // in which every entry waits for all that are ahead of it
		for _, primitive := range c.Primitives {
			if primitive == mutex || primitive == reentrant || primitive == election {
				halves := queuesOf(c.Primitives, primitive)
				queues = slices.Concat(queues, halves[0], halves[1])
			}
		}
		if len(queues) > 0 {
			row(tierEntry, 0, single, func(ctx context.Context, f fault) error {
				servers.meddle(ctx, f, queues)
				return nil
			})
		}
	}
	group.Go(func() error {
		const every = 5 * time.Second
		for pause.For(ctx, every) == nil {
			report()
		}
		return nil
	})
	return group.Wait()
}

// aim waits until one of these processes holds a lock, and returns a function that lets it proceed, which does nothing if there
// was none.
func aim(ctx context.Context, protected *resource, of func(process string) bool) (proceed func(stay time.Duration)) {
	ctx, cancel := context.WithTimeout(ctx, aimFor)
	defer cancel()
	if _, proceed, ok := protected.catch(ctx, of); ok {
		return proceed
	}
	return func(time.Duration) {}
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

// orphans waits until nothing stands in any of the queues. What a killed process has left goes with its session.
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
		halves := queuesOf(c.Primitives, primitive)
		for _, queue := range slices.Concat(halves[0], halves[1]) {
			over := time.Now().Add(c.hang())
			for {
				list, err := farsync.NewMutex(store, queue).Participants(ctx)
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
