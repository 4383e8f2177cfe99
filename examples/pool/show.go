//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// A show starts the workers and waits until they are done. All of it is done by one goroutine.
type show struct {
	options options
	screen  *program.Screen
	server  *server
	part    part // what is the same for all workers

	reports   chan program.Report[report]
	processes []*program.Process
	ready     int
	over      int
}

// parse returns the show that the arguments ask for.
func parse(args []string) (program.Play, error) {
	o, err := parseOptions(args)
	return o.perform, err
}

// perform sets up what the show needs, runs it, and clears everything away again.
func (o options) perform(ctx context.Context, screen *program.Screen, dir string) (_ program.Outcome, err error) {
	s := &show{
		options: o, screen: screen, server: newServer(o.job), reports: make(chan program.Report[report]),
	}
	url, closed, err := program.Serve(s.server)
	if err != nil {
		return nil, err
	}
	defer closed()
	s.part = part{Server: url}
	screen.Fact("server", url)
	var service *program.Running
	if o.noLimit {
		screen.Fact("limit", "none (-no-limit)")
	} else {
		if service, err = o.service.Run(ctx, "pool", dir, screen); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, service.Close()) }()
		s.part.Service, s.part.Limit = service.Service, o.limit
		screen.Fact("limit", fmt.Sprintf("%d units at %s, TTL %v", o.limit, service.Path, service.TTL))
	}
	begun, err := s.run(ctx)
	if err != nil {
		return nil, err
	}
	result := &outcome{options: o, took: time.Since(begun)}
	result.done, result.repeated, result.most = s.server.figures()
	if service != nil {
		result.left, err = service.Left(ctx)
	}
	return result, err
}

// run is the whole show. No worker is left when it returns.
func (s *show) run(ctx context.Context) (begun time.Time, err error) {
	defer func() { program.StopAll(s.processes) }()
	for i := range s.options.processes {
		p := s.part
		p.Name = fmt.Sprintf("worker %d", i+1)
		p.From = i * s.options.jobs / s.options.processes
		p.Jobs = (i+1)*s.options.jobs/s.options.processes - p.From
		process, err := program.Start(p.Name, p, s.reports)
		if err != nil {
			return begun, err
		}
		s.processes = append(s.processes, process)
	}
	if err := s.until(ctx, func() bool { return s.ready == len(s.processes) }); err != nil {
		return begun, err
	}
	s.screen.Say("%d processes begin: %d jobs of %v each.", len(s.processes), s.options.jobs, s.options.job)
	begun = time.Now()
	for _, p := range s.processes {
		p.Cue()
	}
	err = s.until(ctx, func() bool { return s.over == len(s.processes) })
	return begun, err
}

// until waits until something is so. Meanwhile it takes what the workers report.
func (s *show) until(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, since := 0, time.Now()
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-s.reports:
			if !r.Over {
				s.ready++
				continue
			}
			s.over++
			if r.Err != nil {
				return r.Err
			}
		case <-tick.C:
			done, _, most := s.server.figures()
			s.screen.Progress(done, s.options.jobs, "jobs", fmt.Sprintf("at most %d at once", most))
			if done > last {
				last, since = done, time.Now()
			}
			if time.Since(since) > 20*time.Second+s.options.job+10*s.options.service.TTL {
				return errors.New("nothing has moved for too long")
			}
		}
	}
	return nil
}
