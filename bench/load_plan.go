package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// loads returns the loads of a store.
func loads(store string) []load {
	return slices.Concat(impatientLoads(store), pathLoads(store), crowdLoads(store), connectionLoads(store), commandLoads(store))
}

// impatientLoads are callers who give up soon, on one lock.
func impatientLoads(store string) (list []load) {
	for _, k := range []kind{mutexKind, writerKind, readersKind, semaphoreKind} {
		for _, stores := range []int{1, 3, crowd} {
			for _, s := range everySpan {
				t := task{store: store, clients: stores, span: s}
				list = append(list, load{
					store, fmt.Sprintf("impatient/%s/%s/Stores=%d", k.name, s, stores),
					func(ctx context.Context, l *lab) (outcome, error) {
						t := t
						t.callers, t.paths = l.callers, 1
						return t.play(ctx, l, k)
					},
				})
			}
		}
	}
	return list
}

// pathLoads are callers who give up, on many locks of one Store.
func pathLoads(store string) (list []load) {
	delays := []time.Duration{0, 2 * time.Millisecond}
	if store == onSQLite {
		delays = delays[:1] // no wire
	}
	for _, delay := range delays {
		for _, s := range fewerSpans {
			list = append(list, load{
				store, fmt.Sprintf("paths/1000/%s/delay=%v", s, delay),
				func(ctx context.Context, l *lab) (outcome, error) {
					t := task{store: store, clients: 1, callers: l.of(2_000), paths: l.of(1_000), span: s, delay: delay / 2}
					return t.play(ctx, l, mutexKind)
				},
			})
		}
	}
	return list
}

// A task is callers who go on for a while.
type task struct {
	store   string
	clients int
	callers int
	paths   int
	span    span
	delay   time.Duration // each way
	lasts   time.Duration // 0: for a row
	holds   time.Duration
}

// run has one side do the task. It is measured once, whoever is compared with it.
func (t task) run(ctx context.Context, l *lab, as string, open opener) (account, error) {
	return l.once(fmt.Sprint(as, t), func() (account, error) {
		return l.onStage(t.delay, func(on *stage) (account, error) {
			s, err := open(ctx, on, t.clients, t.callers)
			if err != nil {
				return account{}, err
			}
			v := visit{span: t.span, lasts: t.lasts, holds: t.holds}
			if v.lasts == 0 {
				v.lasts = l.row
			}
			for i := range t.paths {
				v.paths = append(v.paths, fmt.Sprint(on.path, "-", i))
			}
			return s.visits(ctx, v), nil
		})
	})
}

// least is how many grants the task asks for, by the grants of patient callers and of callers of the stock lock. Callers who
// share Stores wait inside the Stores, and are to get nearly as much as patient callers. Callers with a Store each all meet
// at the service, as callers of the stock lock do.
func (t task) least(patient, stock account) int64 {
	if t.clients < t.callers {
		return int64(leastOfPatient * float64(patient.grants))
	}
	least := leastApart * float64(stock.grants)
	if t.span != instant {
		least = max(least, leastApart*float64(patient.grants))
	}
	return int64(least)
}

// play has farsync, and the stock lock of the store, do the task.
func (t task) play(ctx context.Context, l *lab, k kind) (o outcome, err error) {
	t.clients, t.holds = min(t.clients, t.callers), work
	calm := t
	calm.span = patient
	wanted, err := calm.run(ctx, l, k.name, k.ourSide(storeOf(t.store)))
	if err != nil {
		return o, err
	}
	if o.ours, err = t.run(ctx, l, k.name, k.ourSide(storeOf(t.store))); err != nil {
		return o, err
	}
	o.ours.clients = t.clients
	beside := stockOf(t.store)
	if beside.most > 0 && t.callers > beside.most {
		o.asked = "takes a connection each"
	} else {
		o.asked = beside.name
		if k.name == readersKind.name || k.name == semaphoreKind.name {
			o.asked += ", a mutex"
		}
		o.stock, err = t.run(ctx, l, beside.name, beside.open)
	}
	o.least = t.least(wanted, o.stock)
	return o, err
}

// crowdLoads are crowds on one lock.
func crowdLoads(store string) (list []load) {
	add := func(name string, c crowded) {
		list = append(list, load{store, "crowds/" + name, func(ctx context.Context, l *lab) (outcome, error) {
			return c.play(ctx, l, store)
		}})
	}
	for _, stores := range []int{1, 50} {
		for _, n := range []int{5_000, 10_000} {
			add(fmt.Sprintf("Mutex/callers=%d/Stores=%d", n, stores), crowded{kind: mutexKind, callers: n, clients: stores})
		}
		for _, k := range []kind{writerKind, semaphoreKind, underKind, electionKind} {
			add(fmt.Sprintf("%s/callers=5000/Stores=%d", k.name, stores), crowded{kind: k, callers: 5_000, clients: stores})
		}
	}
	add("held-for-30ms/callers=1500/Stores=20", crowded{kind: mutexKind, callers: 1_500, clients: 20, holds: 30 * time.Millisecond})
	add("next-is-killed/callers=1000/Stores=20", crowded{kind: mutexKind, callers: 1_000, clients: 20, killed: true})
	list = append(list, load{store, "crowds/come-and-go/callers=2000/Stores=20", func(ctx context.Context, l *lab) (outcome, error) {
		t := task{store: store, clients: 20, callers: l.of(2_000), paths: 1, span: span{100 * time.Millisecond, 4 * time.Second}, lasts: l.visits}
		return t.play(ctx, l, mutexKind)
	}})
	return list
}

// A crowded is a crowd that is served once.
type crowded struct {
	kind    kind
	callers int
	clients int
	holds   time.Duration
	killed  bool // a process is next in line, and is killed before the first release
}

func (c crowded) play(ctx context.Context, l *lab, store string) (o outcome, err error) {
	callers := l.of(c.callers)
	clients := min(c.clients, callers)
	run := func(open opener, as string) (account, error) {
		return l.onStage(0, func(on *stage) (account, error) {
			s, err := open(ctx, on, clients, callers)
			if err != nil {
				return account{}, err
			}
			g := gathering{path: on.path, first: l.first, holds: c.holds, most: l.most}
			if c.killed {
				g.before = func(ctx context.Context) (func() error, error) { return startVictim(ctx, on, as) }
			}
			return s.gather(ctx, g)
		})
	}
	o.served, o.least = true, int64(callers)
	if o.ours, err = run(c.kind.ourSide(storeOf(store)), ours); err != nil {
		return o, err
	}
	o.ours.clients = clients
	if o.leastRate, err = c.leastRate(ctx, l, store, clients); err != nil {
		return o, err
	}
	beside := stockOf(store)
	switch {
	case c.kind.name != mutexKind.name:
		o.asked = "asked with Mutex"
	case beside.most > 0 && callers > beside.most:
		o.asked = "takes a connection each"
	default:
		o.asked = beside.name
		o.stock, err = run(beside.open, beside.name)
	}
	return o, err
}

// leastRate is how many callers are to be served a second. A crowd that waits for the end of a session has no rate, nor
// has a crowd of a tenth, which is served at once.
func (c crowded) leastRate(ctx context.Context, l *lab, store string, clients int) (float64, error) {
	if c.killed || l.part > 1 {
		return 0, nil
	}
	steady := task{store: store, clients: min(clients, l.callers), callers: l.callers, paths: 1, holds: c.holds}
	a, err := steady.run(ctx, l, c.kind.name, c.kind.ourSide(storeOf(store)))
	return leastInACrowd * a.rate(), err
}

// connectionLoads are as many Stores as a server has room for as it is installed, at two connections each, a patient caller each.
func connectionLoads(store string) []load {
	room := map[string]int{onPostgres: 100, onMySQL: 151}[store]
	if room == 0 {
		return nil
	}
	clients := room/2 - 1 // and a newcomer's
	return []load{{store, fmt.Sprintf("connections/Stores=%d/room=%d", clients, room), func(ctx context.Context, l *lab) (o outcome, err error) {
		n := clients
		if l.callers < crowd {
			n = l.callers
		}
		t := task{store: store, clients: n, callers: n, paths: 1}
		roomy, err := t.play(ctx, l, mutexKind)
		if err != nil {
			return o, err
		}
		tight := &lab{scale: l.scale, kept: map[string]account{}}
		if tight.on, err = openSite(ctx, siteSpec{store: store, asInstalled: true}); err != nil {
			return o, err
		}
		o, err = t.play(ctx, tight, mutexKind)
		o.least = int64(leastOfPatient * float64(roomy.ours.grants))
		return o, errors.Join(err, tight.on.close())
	}}}
}
