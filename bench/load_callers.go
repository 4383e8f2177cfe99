package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// A span is for how long the ctx of a call lasts: a random time between two. A patient caller has the zero span.
type span struct{ least, most time.Duration }

var (
	patient    = span{}
	instant    = span{30 * time.Millisecond, 60 * time.Millisecond}
	soonGone   = span{250 * time.Millisecond, 500 * time.Millisecond}
	longer     = span{time.Second, 2 * time.Second}
	everySpan  = []span{patient, instant, soonGone, longer}
	fewerSpans = []span{patient, soonGone, longer}
)

func (s span) String() string {
	if s == patient {
		return "no-deadline"
	}
	return fmt.Sprint(s.least, "-", s.most)
}

// work is how long the lock is held by callers who go on.
const work = 5 * time.Millisecond

// A visit is what a caller does again and again.
type visit struct {
	paths []string // one of them, by chance
	span  span
	lasts time.Duration // no call begins later
	holds time.Duration // the lock, each time
}

// visits has all callers of a side go on, and then a newcomer take the locks.
func (s *side) visits(ctx context.Context, v visit) account {
	a := account{callers: len(s.takes), took: v.lasts}
	peak := countGoroutines(ctx)
	each := make([]account, len(s.takes))
	end := time.Now().Add(v.lasts)
	var all sync.WaitGroup
	for i, take := range s.takes {
		all.Go(func() { each[i] = v.caller(ctx, take, end) })
	}
	all.Wait()
	a.peak = peak()
	a.add(each)
	const looked = 10
	s.newcomer(ctx, &a, v.paths[:min(len(v.paths), looked)]...)
	return a
}

// hold returns when a lock has been held for so long.
func hold(ctx context.Context, d time.Duration) {
	if d > 0 {
		_ = pause.For(ctx, d)
	}
}

// caller is what one caller does.
func (v visit) caller(ctx context.Context, take taking, end time.Time) (a account) {
	for now := time.Now(); now.Before(end) && ctx.Err() == nil; now = time.Now() {
		deadline, until := time.Time{}, end.Add(patience)
		if v.span != patient {
			deadline = now.Add(v.span.least + rand.N(v.span.most-v.span.least))
			until = deadline
		}
		calling, cancel := context.WithDeadline(ctx, until)
		giveBack, err := take(calling, v.paths[rand.IntN(len(v.paths))])
		a.called(err, deadline)
		if err == nil {
			if time.Now().Before(end) {
				a.grants++
			}
			hold(ctx, v.holds)
			a.failed(giveBack())
		} else if v.span == patient {
			a.failed(fmt.Errorf("not served within %v after the end", patience))
		}
		cancel()
	}
	return a
}

// newcomer notes for how long a newcomer waits for the locks, and then what was lost.
func (s *side) newcomer(ctx context.Context, a *account, paths ...string) {
	ctx, cancel := context.WithTimeout(ctx, newcomer)
	defer cancel()
	left := time.Now()
	for _, path := range paths {
		giveBack, err := s.whole(ctx, path)
		if err != nil {
			a.failed(err)
			a.free = -1
			break
		}
		a.free = time.Since(left)
		a.failed(giveBack())
	}
	a.sessions, a.leases = s.lost()
}

// A gathering is callers who all stand in line behind a holder, and are served once each.
type gathering struct {
	path  string
	first time.Duration // the holder holds for so long
	holds time.Duration // each caller
	most  time.Duration // for all of them
	// before, if not nil, is called with the lock held before the callers come, and what it returns before the holder releases.
	before func(ctx context.Context) (after func() error, err error)
}

// gather has a crowd served.
func (s *side) gather(ctx context.Context, g gathering) (account, error) {
	a := account{callers: len(s.takes)}
	held, err := s.whole(ctx, g.path)
	if err != nil {
		return a, err
	}
	after := func() error { return nil }
	if g.before != nil {
		if after, err = g.before(ctx); err != nil {
			return a, err
		}
	}
	peak := countGoroutines(ctx)
	calling, cancel := context.WithTimeout(ctx, g.first+g.most)
	defer cancel()
	deadline, _ := calling.Deadline()
	each := make([]account, len(s.takes))
	var all sync.WaitGroup
	for i, take := range s.takes {
		all.Go(func() {
			giveBack, err := take(calling, g.path)
			each[i].called(err, deadline)
			if err == nil {
				each[i].grants++
				hold(ctx, g.holds)
				each[i].failed(giveBack())
			}
		})
	}
	_ = pause.For(ctx, g.first)
	err = after()
	began := time.Now()
	a.failed(held())
	all.Wait()
	a.took = time.Since(began)
	a.peak = peak()
	a.add(each)
	s.newcomer(ctx, &a, g.path)
	return a, err
}
