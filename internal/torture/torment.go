//go:build unix

package main

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/internal/pause"
)

const (
	// clientRows is how many processes may be stopped at the same time.
	clientRows = 2
	// aimFor is for how long a fault waits for a holder that it can hit.
	aimFor = 3 * time.Second
	// recoverFor bounds for how long grants are waited for after a server has failed.
	recoverFor = 5 * time.Second
)

// Counts besides the faults, for there are figures to reach.
const (
	longStops    = "processes stopped for more than 2 TTL"
	leadersAside = "leaders isolated with clients of which one held"
)

// A torment is what happens to a campaign's servers and clients.
type torment struct {
	*campaign
	servers   *service
	wires     []loom
	workers   *crew
	protected *resource
	count     *tallies
}

// run breaks one thing after another, several at the same time, for as long as the campaign lasts. Then all is whole.
func (t *torment) run(ctx context.Context, report func()) error {
	ctx, cancel := context.WithTimeout(ctx, t.For)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	row := func(tier string, row int, of shape, happen func(context.Context, fault) error) {
		if slices.Contains(t.Tiers, tier) {
			group.Go(func() error {
				from := newSchedule(tier, t.Seed, uint64(row), t.TTL, of, t.Fast)
				return inject(ctx, from, func(ctx context.Context, f fault) error {
					defer t.count.begin(f.What)()
					return happen(ctx, f)
				})
			})
		}
	}
	for place, l := range t.wires {
		for i, w := range l {
			row(tierWire, place*t.Machines+i, single, func(ctx context.Context, f fault) error {
				t.onWire(ctx, f, place, i, w)
				return nil
			})
		}
	}
	for i, some := range t.servers.rows {
		row(tierNode, i, some.shape, func(ctx context.Context, f fault) error { return t.onNode(ctx, f, some) })
	}
	for i := range clientRows {
		row(tierClient, i, single, func(ctx context.Context, f fault) error { return t.onClient(ctx, f, i) })
	}
	if t.servers.meddle != nil && t.Recipe == ours {
		if queues := t.alone(); len(queues) > 0 {
			row(tierEntry, 0, single, func(ctx context.Context, f fault) error {
				t.servers.meddle(ctx, f, queues)
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

// onWire breaks the wire of one Store of a process.
func (t *torment) onWire(ctx context.Context, f fault, place, i int, w wire) {
	proceed := func(time.Duration) {}
	if f.Aimed && f.For >= t.TTL/2 {
		proceed, _ = t.aim(ctx, func(w write) bool { return w.Wire == i && w.Process == t.workers.at(place).name })
	}
	w.suffer(ctx, f, func() { proceed(f.For + t.TTL/2) })
}

// onNode breaks one of some servers. Where faults are fast, it then waits until as many locks were granted as there are
// paths.
func (t *torment) onNode(ctx context.Context, f fault, some nodes) error {
	if t.Store == onEtcd && (f.What == nodeStop || f.What == nodeStopFirst) {
		// A leader of etcd 3.7.0 that was stopped revokes leases which have been renewed at the leader after it, when
		// it goes on before it hears of that one. No client can help that, and only tokens keep holders apart then. A
		// stop that is shorter than an election leaves it the leader.
		f.For = min(f.For, t.TTL/4)
	}
	err := t.servers.onNode(ctx, f, some.members, func(server int) (undo func()) { return t.beside(ctx, f, some, server) })
	if err != nil || !t.Fast {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recoverFor)
	defer cancel()
	for whole := t.protected.count().grants; t.protected.count().grants < whole+t.Paths; {
		if pause.For(ctx, 10*time.Millisecond) != nil {
			break
		}
	}
	return nil
}

// beside leaves a process of clients, in two cases of three, no server or only the server that is about to be cut off
// or killed.
func (t *torment) beside(ctx context.Context, f fault, some nodes, server int) (undo func()) {
	if !f.Aimed || some.shape == ensemble && f.What == nodeKill { // then there are others for its clients
		return func() {}
	}
	place := f.pick(t.Processes)
	of := func(w write) bool { return w.Process == t.workers.at(place).name }
	if some.shape == ensemble {
		// A process goes with the server, and holds a lock for longer than the others take to give it away.
		undo = t.wires[place].only(server)
		proceed, caught := t.aim(ctx, of)
		if caught && (f.What == nodeCutFirst || f.What == nodePart) {
			t.count.note(leadersAside)
		}
		proceed(f.For + 3*t.TTL)
		return undo
	}
	// A holder is cut off, and does not hear that the server has forgotten it.
	proceed, _ := t.aim(ctx, of)
	heal := t.wires[place].only(-1)
	proceed(f.For + 3*t.TTL)
	return func() {
		_ = pause.For(ctx, t.TTL)
		heal()
	}
}

// onClient stops or kills a process. Each row has processes of its own.
func (t *torment) onClient(ctx context.Context, f fault, row int) error {
	mine := func(place int) bool { return place%clientRows == row }
	place := row + clientRows*f.pick((t.Processes-row+clientRows-1)/clientRows)
	proceed := func(time.Duration) {}
	if f.Aimed {
		proceed, _ = t.aim(ctx, func(w write) bool {
			at, ok := t.workers.place(w.Process)
			if ok && mine(at) {
				place = at
			}
			return ok && mine(at)
		})
	}
	if f.What == clientKill {
		err := t.workers.replace(place)
		proceed(0)
		return err
	}
	resume := t.workers.stop(place)
	proceed(t.TTL / 2)
	if pause.For(ctx, f.For) == nil && f.For > 2*t.TTL {
		t.count.note(longStops)
	}
	resume()
	return nil
}

// alone returns the queues in which every entry waits for all that are ahead of it.
func (t *torment) alone() (queues []string) {
	for _, primitive := range t.Primitives {
		if primitive == mutex || primitive == reentrant || primitive == election {
			halves := queuesOf(t.Paths, t.Primitives, primitive)
			queues = slices.Concat(queues, halves[0], halves[1])
		}
	}
	return queues
}

// aim waits until one of these holds a lock, and returns a function that lets it proceed, which does nothing if there
// was none.
func (t *torment) aim(ctx context.Context, of func(w write) bool) (proceed func(stay time.Duration), caught bool) {
	ctx, cancel := context.WithTimeout(ctx, aimFor)
	defer cancel()
	if _, proceed, ok := t.protected.catch(ctx, of); ok {
		return proceed, true
	}
	return func(time.Duration) {}, false
}
