package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// A scene is one body with a number of contenders on one store.
type scene struct {
	store   string // etcd, zookeeper, redis, postgres, mysql, sqlite
	body    string // what is done: free, contended, …
	setting string // of the servers or the network; empty for one server, without fsync, on this machine
	n       int    // contenders, or for the body queue, entries that stand in it
	// waiting has so many entries stand in the long queue before the peers begin.
	waiting int
	// inTurn has each contender served once before the next round of all begins. Where locks are unfair, contenders that go on at
	// once measure one of them that takes the lock again and again, while the others sleep.
	inTurn bool
	peers  []peer
}

// name returns what ONLY is matched against.
func (s scene) name() string {
	parts := []string{s.store, s.body}
	if s.setting != "" {
		parts = append(parts, strings.ReplaceAll(s.setting, " ", "-"))
	}
	return strings.Join(append(parts, fmt.Sprint("N=", s.n)), "/")
}

// site returns what the scene needs of servers.
func (s scene) site() siteSpec {
	return siteSpec{store: s.store, fsync: s.setting == onDisk, cluster: s.setting == ofThree}
}

// The settings of scenes.
const (
	onDisk  = "fsync"
	ofThree = "cluster of three"
	faraway = "2 ms"
	withFew = "with 8 in the same rounds"
	// besideIdle has so many Stores open that do nothing.
	besideIdle = withFew + ", beside 200 idle Stores"
	idleStores = 200
)

// A peer makes a team of n contenders on a stage. The first peer of a scene is farsync, the second what it is compared with.
type peer struct {
	name string
	team func(ctx context.Context, on *stage, n int) (team, error)
}

// A stage is where a team acts: the addresses of the servers, or of proxies in front of them, and a path of its own.
type stage struct {
	at      []string // host:port, a file for SQLite
	site    *site
	path    string
	closers []func()
}

// paths are never used twice.
var paths atomic.Int64

// newStage returns a stage at the servers; behind proxies that delay what passes and count it, if there is a reason to.
func newStage(at *site, delay time.Duration, count *tally) (*stage, error) {
	s := &stage{at: at.endpoints, site: at, path: fmt.Sprint("/bench/", paths.Add(1))}
	if delay == 0 && count == nil || at.spec.store == onSQLite {
		return s, nil
	}
	s.at = nil
	for _, endpoint := range at.endpoints {
		w, err := newWire(endpoint, at.spec.store, delay, count)
		if err != nil {
			s.close()
			return nil, err
		}
		s.onClose(w.close)
		s.at = append(s.at, w.addr())
	}
	return s, nil
}

func (s *stage) onClose(f func()) { s.closers = append(s.closers, f) }

func (s *stage) close() {
	for _, closeIt := range slices.Backward(s.closers) {
		closeIt()
	}
	s.closers = nil
}

// A team has its contenders act at once.
type team interface {
	// run has them begin, calls edge after warm, and again when the window is over, and returns how often each has finished in
	// the window once all have stopped.
	run(ctx context.Context, warm, window time.Duration, edge func()) (counts []int64, err error)
	// pid is the process of the contenders.
	pid() int
}

// A body locks and unlocks once.
type body func(ctx context.Context) error

// bodies are contenders in this process, a goroutine each.
type bodies []body

// gather makes a team of n bodies.
func gather(n int, join func(i int) (body, error)) (team, error) {
	list := bodies{}
	for i := range n {
		b, err := join(i)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return will{list, new(atomic.Int64)}, nil
}

func (t bodies) pid() int { return self }

// patience is how long an acquisition may take before it counts as failed; turnPatience where each contender is served once before the
// next round: a peer that has missed what should wake it has all others wait with it.
const (
	patience     = 20 * time.Second
	turnPatience = 5 * time.Second
)

// A will team has each contender act as often as it can.
type will struct {
	bodies
	failed *atomic.Int64 // acquisitions that failed
}

// maxFailures is how many acquisitions of a contender may fail: on a machine that is overloaded a server may be late for any client.
const maxFailures = 3

func (t will) run(ctx context.Context, warm, window time.Duration, edge func()) ([]int64, error) {
	done := make([]atomic.Int64, len(t.bodies))
	read := func() []int64 {
		counts := make([]int64, len(t.bodies))
		for i := range done {
			counts[i] = done[i].Load()
		}
		return counts
	}
	var over atomic.Bool
	ended := make(chan error, len(t.bodies))
	for i, b := range t.bodies {
		go func() { // ends when the window is over and its last acquisition done; ended joins it
			ended <- t.repeat(ctx, b, &over, &done[i])
		}()
	}
	err := pause.For(ctx, warm)
	edge()
	before := read()
	err = errors.Join(err, pause.For(ctx, window))
	counts := read()
	edge()
	over.Store(true)
	for range t.bodies {
		err = errors.Join(err, <-ended)
	}
	for i := range counts {
		counts[i] -= before[i]
	}
	return counts, err
}

func (t will) repeat(ctx context.Context, b body, over *atomic.Bool, done *atomic.Int64) error {
	for failures := 0; !over.Load(); {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := b(ctx)
		cancel()
		if err == nil {
			done.Add(1)
			continue
		}
		t.failed.Add(1)
		if failures++; failures > maxFailures {
			return err
		}
	}
	return nil
}

// A turns team serves each of its contenders once before the next round of all begins. Its window ends with a round.
type turns struct {
	bodies
	failed *atomic.Int64 // acquisitions that failed, for they waited for longer than turnPatience
}

func (t turns) run(ctx context.Context, warm, window time.Duration, edge func()) ([]int64, error) {
	counts := make([]int64, len(t.bodies))
	for _, part := range []time.Duration{warm, window} {
		clear(counts)
		for began := time.Now(); time.Since(began) < part; {
			if err := t.round(ctx, counts); err != nil {
				return nil, err
			}
		}
		edge()
	}
	return counts, nil
}

func (t turns) round(ctx context.Context, counts []int64) error {
	ended := make(chan error, len(t.bodies))
	for i, b := range t.bodies {
		go func() { // ended joins it
			ctx, cancel := context.WithTimeout(ctx, turnPatience)
			defer cancel()
			err := b(ctx)
			switch {
			case err == nil:
				counts[i]++
			case ctx.Err() != nil:
				t.failed.Add(1)
				err = nil
			}
			ended <- err
		}()
	}
	var err error
	for range t.bodies {
		err = errors.Join(err, <-ended)
	}
	return errors.Join(err, ctx.Err())
}
