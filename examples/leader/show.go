//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
)

const candidates = 3

// A show directs the candidates: it starts them, kills the leader, and starts another in its place. All of it is done by
// one goroutine.
type show struct {
	options  options
	screen   *program.Screen
	resource *resource
	part     part // what is the same for all candidates

	reports   chan program.Report[struct{}]
	seen      chan string // what the observer sees
	processes []*program.Process
	killed    []*program.Process
	over      int // processes that have ended
	vacancies []time.Duration
	observed  int // changes that the observer has told
}

// parse returns the show that the arguments ask for.
func parse(args []string) (program.Play, error) {
	o, err := parseOptions(args)
	return o.perform, err
}

// perform sets up what the show needs, runs it, and clears everything away again.
func (o options) perform(ctx context.Context, screen *program.Screen, dir string) (_ program.Outcome, err error) {
	s := &show{
		options: o, screen: screen, resource: &resource{},
		reports: make(chan program.Report[struct{}]), seen: make(chan string),
	}
	url, closed, err := program.Serve(s.resource)
	if err != nil {
		return nil, err
	}
	defer closed()
	service, err := o.service.Run(ctx, "leader", dir, screen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	s.part = part{Service: service.Service, Resource: url}
	screen.Fact("path", fmt.Sprintf("%s, TTL %v", service.Path, service.TTL))

	stop := s.observe(ctx, farsync.NewElection(service.Store, service.Path))
	defer stop()
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	result := &outcome{show: s, took: screen.Took()}
	result.left, err = service.Left(ctx)
	return result, err
}

// observe tells the show which candidate leads. It is a client like any other, and could be in any process.
func (s *show) observe(ctx context.Context, election *farsync.Election) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // joined by stop
		defer close(done)
		for leader, err := range election.Observe(ctx) {
			words := fmt.Sprintf("%s leads, with token %d", leader.Value, leader.Token)
			switch {
			case err != nil:
				words = "nobody looks any more: " + err.Error()
			case leader == farsync.Leader{}:
				words = "no one leads"
			}
			select {
			case s.seen <- words:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// run is the whole show. No candidate is left when it returns.
func (s *show) run(ctx context.Context) error {
	defer func() { program.StopAll(s.processes) }()
	for range candidates {
		if err := s.start(); err != nil {
			return err
		}
	}
	var last farsync.Token
	for range s.options.kills {
		leader, err := s.awaitLeader(ctx, last)
		if err != nil {
			return err
		}
		until := leader.first.Add(s.options.reign)
		if err := s.until(ctx, func() bool { return time.Now().After(until) }); err != nil {
			return err
		}
		at, err := s.kill(leader)
		if err != nil {
			return err
		}
		next, err := s.awaitLeader(ctx, leader.token)
		if err != nil {
			return err
		}
		s.vacancies = append(s.vacancies, next.first.Sub(at))
		s.screen.Say("%s writes: %s after the kill.", next.name, program.Seconds(next.first.Sub(at)))
		last = leader.token
	}
	// The other processes resign in good order, one after the other takes over, and none is left.
	for _, p := range s.processes {
		p.Dismiss()
	}
	return s.until(ctx, func() bool { return s.over == len(s.processes) })
}

func (s *show) start() error {
	p := s.part
	p.Name = fmt.Sprintf("candidate %d", len(s.processes)+1)
	process, err := program.Start(p.Name, p, s.reports)
	if err == nil {
		s.processes = append(s.processes, process)
	}
	return err
}

// kill kills the leader, and starts another candidate in its place.
func (s *show) kill(leader term) (at time.Time, err error) {
	i := slices.IndexFunc(s.processes, func(p *program.Process) bool { return p.Name == leader.name })
	if i < 0 {
		return at, fmt.Errorf("%q writes, and is none of ours", leader.name)
	}
	s.killed = append(s.killed, s.processes[i])
	at = time.Now()
	s.processes[i].Kill()
	s.screen.Say("%s is killed (SIGKILL). Nobody resigns for it, so all wait for the TTL to pass.", leader.name)
	return at, s.start()
}

// awaitLeader waits until a candidate writes with a higher token.
func (s *show) awaitLeader(ctx context.Context, after farsync.Token) (leader term, err error) {
	err = s.until(ctx, func() bool {
		var ok bool
		leader, ok = s.resource.leader()
		return ok && leader.token > after
	})
	return leader, err
}

// until waits until something is so. Meanwhile it takes what the processes and the observer tell.
func (s *show) until(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(20*time.Second + s.options.reign + 10*s.options.service.TTL)
	defer late.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-s.reports:
			s.over++
			if r.Err != nil && !slices.Contains(s.killed, r.From) {
				return r.Err
			}
		case words := <-s.seen:
			s.observed++
			s.screen.Say("Observer: %s.", words)
		case <-tick.C:
		case <-late.C:
			return errors.New("nothing has moved for too long")
		}
	}
	return nil
}
