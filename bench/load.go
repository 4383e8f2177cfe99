package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
)

// A load is callers of the locks of one store: of farsync's, and beside them of a stock lock, which many programs use on that service.
type load struct {
	store string
	name  string
	play  func(ctx context.Context, l *lab) (outcome, error)
}

// fullName returns what ONLY is matched against.
func (l load) fullName() string { return l.store + "/" + l.name }

// A scale says how long loads last, and how large they are.
type scale struct {
	row     time.Duration // for how long callers go on
	visits  time.Duration // for how long callers come and go in a crowd
	first   time.Duration // the holder that a crowd stands behind releases after it
	most    time.Duration // a crowd is given so long to be served
	callers int           // who go on for a row
	part    int           // a crowd is smaller by this factor
	runs    int           // processes of the command at most
}

var (
	wholeScale = scale{row: 12 * time.Second, visits: time.Minute, first: 4 * time.Second, most: 86 * time.Second, callers: crowd, part: 1, runs: 150}
	shortScale = scale{row: 3 * time.Second, visits: 3 * time.Second, first: time.Second, most: 20 * time.Second, callers: crowd, part: 10, runs: 150}
)

// of returns the size of a crowd.
func (s scale) of(n int) int { return max(n/s.part, 2) }

// A lab is where the loads of one store are played. Its servers have room for the connections of all clients.
type lab struct {
	scale
	on     *site
	binary string             // of the command farsync; empty until it is built
	kept   map[string]account // of patient callers and of stock locks, by what they did: other loads are compared with them, too
}

// once returns what it has returned before for that name, or has it measured.
func (l *lab) once(name string, measure func() (account, error)) (account, error) {
	if a, is := l.kept[name]; is {
		return a, nil
	}
	a, err := measure()
	if err == nil {
		l.kept[name] = a
	}
	return a, err
}

// onStage plays on a stage of its own, which is closed afterwards.
func (l *lab) onStage(delay time.Duration, play func(on *stage) (account, error)) (account, error) {
	on, err := newStage(l.on, delay, nil)
	if err != nil {
		return account{}, err
	}
	defer on.close()
	return play(on)
}

// runLoads plays the loads that the pattern matches, and prints a table for each store. A load that misses its bound is an error, after
// all of them.
func runLoads(ctx context.Context, pattern *regexp.Regexp, s scale, list bool) error {
	var failed error
	red, all := 0, 0
	for _, store := range stores {
		var chosen []load
		for _, l := range loads(store) {
			if pattern.MatchString(l.fullName()) {
				chosen = append(chosen, l)
			}
		}
		if list {
			for _, l := range chosen {
				fmt.Println(l.fullName())
			}
			continue
		}
		if len(chosen) == 0 {
			continue
		}
		outcomes, err := playAll(ctx, store, chosen, s)
		fmt.Print(loadTable(store, outcomes))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = errors.Join(failed, err)
		for _, o := range outcomes {
			all++
			if len(o.misses()) > 0 {
				red++
			}
		}
	}
	switch {
	case list:
		return nil
	case all == 0 && failed == nil:
		return fmt.Errorf("no load has a name like %q", pattern)
	case red > 0:
		failed = errors.Join(failed, fmt.Errorf("%d of %s missed their bounds", red, plural(all, "load")))
	}
	return failed
}

// playAll plays the loads of one store. A load that fails is reported, and the next one played on servers of its own.
func playAll(ctx context.Context, store string, chosen []load, s scale) (outcomes []outcome, err error) {
	l := &lab{scale: s, kept: map[string]account{}}
	closeSite := func() {
		if l.on != nil {
			err = errors.Join(err, l.on.close())
			l.on = nil
		}
	}
	defer closeSite()
	defer func() {
		if l.binary != "" {
			err = errors.Join(err, os.Remove(l.binary))
		}
	}()
	for i, one := range chosen {
		fmt.Fprintf(os.Stderr, "[%d of %d, load %.0f] %s\n", i+1, len(chosen), loadAverage(), one.fullName())
		if l.on == nil {
			var openErr error
			if l.on, openErr = openSite(ctx, siteSpec{store: store}); openErr != nil {
				return outcomes, errors.Join(err, openErr)
			}
		}
		o, playErr := one.play(ctx, l)
		if ctx.Err() != nil {
			return outcomes, errors.Join(err, ctx.Err())
		}
		if playErr != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", one.fullName(), playErr)
			err = errors.Join(err, fmt.Errorf("%s: %w", one.fullName(), playErr))
			closeSite() // it may be the servers
			continue
		}
		o.name = one.name
		fmt.Fprintln(os.Stderr, "    "+o.line())
		outcomes = append(outcomes, o)
	}
	return outcomes, err
}
