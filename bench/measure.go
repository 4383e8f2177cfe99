package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// A pace is for how long a scene is measured.
type pace struct {
	rounds   int
	warm     time.Duration // before each window, when the contenders have begun
	window   time.Duration
	javaWarm time.Duration // before the first window of a team of Java's
	setUp    time.Duration // how long the servers, and the clients of one peer, take to come: a guess, for the total that is announced
}

// of returns the pace of a scene. In a crowd all have to stand in line before the window opens, and to be served more than once
// before it closes.
func (p pace) of(s scene) pace {
	if s.waiting == 0 {
		p.warm += time.Duration(s.n) * 4 * time.Millisecond
		p.window = max(p.window, time.Duration(s.n)*8*time.Millisecond)
	}
	return p
}

// spread returns the window in which it is counted how evenly acquisitions are spread: each contender can be served several times in
// it. In a shorter one the strictest queue looks unfair, for some of a crowd are not served at all. rate is what they make in turn.
func (p pace) spread(n int, rate float64) time.Duration {
	const times, most = 8, 10
	if rate <= 0 {
		return most * p.window
	}
	return min(max(p.window/2, time.Duration(times*float64(n)/rate*float64(time.Second))), most*p.window)
}

// takes returns for about how long a scene is measured.
func (p pace) takes(s scene) time.Duration {
	p = p.of(s)
	each := time.Duration(p.rounds+2)*(p.warm+p.window) + p.setUp
	if s.waiting == 0 {
		each += time.Duration(s.n) * 20 * time.Millisecond // clients come, and the last of them finish after the window
	}
	return time.Duration(len(s.peers))*each + time.Duration(s.waiting)*3*time.Millisecond
}

// measure has the peers of a scene run in turn, round after round, and counts what they send in a further round.
func measure(ctx context.Context, s scene, on *site, p pace, progress func(string)) (r result, err error) {
	var closers []func()
	defer func() {
		for _, closeIt := range slices.Backward(closers) {
			closeIt()
		}
	}()
	p = p.of(s)
	stageOf := func(delay time.Duration, count *tally) (*stage, error) {
		stage, err := newStage(on, delay, count)
		if err == nil {
			closers = append(closers, stage.close)
		}
		return stage, err
	}
	delay := time.Duration(0)
	if s.setting == faraway {
		delay = time.Millisecond
	}
	r = result{Scene: s.name(), Store: s.store, Body: s.body, Setting: s.setting, N: s.n, When: time.Now().UTC().Truncate(time.Second), Window: p.window.Seconds()}
	contenders := s.n
	if s.waiting > 0 {
		contenders = 1
		stage, err := stageOf(0, nil)
		if err != nil {
			return r, err
		}
		progress("joining")
		if err := storeOf(s.store).fill(ctx, stage, s.waiting); err != nil {
			return r, fmt.Errorf("%d have to join: %w", s.waiting, err)
		}
	}
	if s.setting == besideIdle {
		stage, err := stageOf(0, nil)
		if err != nil {
			return r, err
		}
		progress("opening idle Stores")
		if err := storeOf(s.store).idle(ctx, stage, idleStores); err != nil {
			return r, err
		}
	}
	acts := make([]act, len(s.peers))
	for i, peer := range s.peers {
		progress("opening " + peer.name)
		stage, err := stageOf(delay, nil)
		if err != nil {
			return r, err
		}
		if acts[i], err = s.open(ctx, peer, stage, contenders); err != nil {
			return r, fmt.Errorf("%s: %w", peer.name, err)
		}
		warm := p.warm
		if acts[i].pid() != self {
			warm = p.javaWarm
		}
		if _, err := acts[i].lap(ctx, warm, p.warm); err != nil {
			return r, fmt.Errorf("%s: %w", peer.name, err)
		}
		r.Peers = append(r.Peers, peerResult{Name: peer.name})
	}
	runtime.GC()
	for round := range p.rounds {
		for i, peer := range s.peers {
			progress(fmt.Sprintf("round %d of %d, %s", round+1, p.rounds, peer.name))
			l, err := acts[i].lap(ctx, p.warm, p.window)
			if err != nil {
				return r, fmt.Errorf("%s: %w", peer.name, err)
			}
			if s.inTurn && contenders > 1 {
				if l.Jain, err = acts[i].atWill(ctx, p.warm, p.spread(contenders, l.Rate)); err != nil {
					return r, fmt.Errorf("%s: %w", peer.name, err)
				}
			}
			r.Peers[i].Laps = append(r.Peers[i].Laps, l)
		}
	}
	r.Load = loadAverage()
	if s.store == onSQLite {
		return r, nil // it has no wire
	}
	for i, peer := range s.peers {
		progress("counting, " + peer.name)
		if r.Peers[i].Wire, err = s.counted(ctx, peer, on, contenders, p); err != nil {
			return r, fmt.Errorf("%s: %w", peer.name, err)
		}
	}
	return r, nil
}

// An act is a team on its stage.
type act struct {
	team
	will   will // the same, each as often as it can; empty if they are not of this process
	failed *atomic.Int64
}

func (s scene) open(ctx context.Context, p peer, on *stage, n int) (act, error) {
	t, err := p.team(ctx, on, n)
	a := act{team: t, failed: new(atomic.Int64)}
	if list, is := t.(will); is {
		a.will, a.failed = list, list.failed
		if s.inTurn {
			a.team = turns(list)
		}
	}
	return a, err
}

// lap runs the team once.
func (a act) lap(ctx context.Context, warm, window time.Duration) (lap, error) {
	var edges []usage
	a.failed.Store(0)
	counts, err := a.run(ctx, warm, window, func() { edges = append(edges, usageOf(a.pid())) })
	if err != nil {
		return lap{}, err
	}
	from, to := edges[0], edges[1]
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	each := func(amount float64) float64 {
		if total == 0 {
			return 0
		}
		return amount / total
	}
	return lap{
		Rate:    total / to.at.Sub(from.at).Seconds(),
		Client:  each(float64((to.client - from.client).Microseconds())),
		Server:  each(float64((to.server - from.server).Microseconds())),
		Objects: each(float64(to.objects - from.objects)),
		Bytes:   each(float64(to.bytes - from.bytes)),
		Jain:    jain(counts),
		Failed:  a.failed.Load(),
	}, nil
}

// atWill returns how evenly acquisitions are spread where all contenders lock as often as they can.
func (a act) atWill(ctx context.Context, warm, window time.Duration) (float64, error) {
	counts, err := a.will.run(ctx, warm, window, func() {})
	return jain(counts), err
}

// counted returns what one acquisition sends and receives.
func (s scene) counted(ctx context.Context, p peer, on *site, n int, pace pace) (*wireCount, error) {
	var tally tally
	stage, err := newStage(on, 0, &tally)
	if err != nil {
		return nil, err
	}
	defer stage.close()
	a, err := s.open(ctx, p, stage, n)
	if err != nil {
		return nil, err
	}
	var edges []count
	counts, err := a.run(ctx, pace.warm, pace.window, func() { edges = append(edges, tally.now()) })
	if err != nil {
		return nil, err
	}
	total := 0.0
	for _, n := range counts {
		total += float64(n)
	}
	if total == 0 {
		return nil, nil // so slow that nothing can be said
	}
	from, to := edges[0], edges[1]
	return &wireCount{
		Requests: float64(to.requests-from.requests) / total, Replies: float64(to.replies-from.replies) / total,
		Sent: float64(to.sent-from.sent) / total, Received: float64(to.received-from.received) / total,
		Connections: float64(to.connections) / float64(len(counts)),
	}, nil
}

// storeOf returns farsync on a store.
func storeOf(name string) store {
	return map[string]store{
		onEtcd: etcdStore, onZooKeeper: zkStore, onRedis: redisStore, onPostgres: postgresStore,
		onMySQL: mysqlStore, onSQLite: sqliteStore,
	}[name]
}

// jain is the fairness index of Jain, Chiu and Hawe (1984): from 1/n, where one has all, to 1, where all have the same.
func jain(counts []int64) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}
