//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// cast are the workers: ten processes.
var cast = []role{checkout, checkout, checkout, reports, reports, reports, backup, backup, ledger, audit}

// stopped is the worker that is stopped while it holds its lock.
const stopped = "backup 1"

// A show starts the workers and lets them work until its time is over. All of it is done by one goroutine.
type show struct {
	options options
	screen  *program.Screen

	told      chan program.Report[report]
	processes []*program.Process
	ready     int
	outcome   outcome
}

// parse returns the show that the arguments ask for.
func parse(args []string) (program.Play, error) {
	o, err := parseOptions(args)
	return o.perform, err
}

// perform sets up what the show needs, runs it, and clears everything away again.
func (o options) perform(ctx context.Context, screen *program.Screen, dir string) (_ program.Outcome, err error) {
	s := &show{options: o, screen: screen, told: make(chan program.Report[report])}
	service, err := o.service.Run(ctx, "live", dir, screen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	url, closed, err := servePage(service.Kind, service.Store, service.Path+"/")
	if err != nil {
		return nil, err
	}
	defer closed()
	screen.Fact("page", url)
	begun := time.Now()
	if err := s.run(ctx, service.Service); err != nil {
		return nil, err
	}
	s.outcome.processes, s.outcome.took = len(cast), time.Since(begun)
	return &s.outcome, nil
}

// run is the whole show. No worker is left when it returns.
func (s *show) run(ctx context.Context, service program.Service) error {
	defer func() { program.StopAll(s.processes) }()
	numbers := map[role]int{}
	for _, role := range cast {
		numbers[role]++
		name := fmt.Sprintf("%s %d", role, numbers[role])
		process, err := program.Start(name, part{name, role, service, s.options.patience}, s.told)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, process)
		// The processes start one after the other: a small machine answers none of ten in time that begin at once.
		if err := s.until(ctx, nil, func() bool { return s.ready == len(s.processes) }); err != nil {
			return err
		}
	}
	s.screen.Say("%d processes begin. Open the page, and end this with Ctrl-C.", len(cast))
	for _, p := range s.processes {
		p.Cue()
	}
	var end <-chan time.Time // nil: never
	if s.options.length > 0 {
		timer := time.NewTimer(s.options.length)
		defer timer.Stop()
		end = timer.C
	}
	return s.until(ctx, end, func() bool { return false })
}

// until takes what the workers report, until something is so or the time is over.
func (s *show) until(ctx context.Context, end <-chan time.Time, so func() bool) error {
	resume := time.NewTimer(time.Hour)
	resume.Stop()
	defer resume.Stop()
	var paused *program.Process
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return nil
		case <-resume.C:
			paused.Resume()
		case r := <-s.told:
			if r.Over {
				return errors.Join(fmt.Errorf("%s has ended", r.From.Name), r.Err)
			}
			s.take(r)
			if r.Told.What == held && r.From.Name == stopped {
				s.screen.Say("%s holds its lock, and is stopped for %v: another will hold it.", stopped, 3*s.options.service.TTL)
				paused = r.From
				paused.Pause()
				resume.Reset(3 * s.options.service.TTL)
			}
		}
	}
	return nil
}

// take counts what a worker reports.
func (s *show) take(r program.Report[report]) {
	switch r.Told.What {
	case ready:
		s.ready++
	case held:
		s.outcome.held++
	case lost:
		s.outcome.lost++
		s.screen.Say("%s goes on, and finds that its lock is lost.", r.From.Name)
	case gaveUp:
		s.outcome.gaveUp++
		s.screen.Say("%s gives up in the deadlock.", r.From.Name)
	}
}
