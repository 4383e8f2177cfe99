//go:build unix

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

const workers = 4

// A show directs the workers: it starts them, kills one, stops another, and waits until the adds are done. All of it
// is done by one goroutine.
type show struct {
	options options
	screen  *program.Screen
	ledger  *ledger
	config  workerConfig // what is the same for all workers

	reports   chan program.Report[report]
	processes []*process
	killed    incident
	stopped   incident
	unaware   int // refused requests of workers whose lease did not know that it was lost
}

// run is the whole show. No worker is left when it returns.
func (s *show) run(ctx context.Context) error {
	defer s.stopAll()
	if err := s.open(ctx); err != nil {
		return err
	}
	if !s.options.noLock {
		if err := s.killOne(ctx); err != nil {
			return err
		}
		if err := s.stopOne(ctx); err != nil {
			return err
		}
	}
	return s.finish(ctx)
}

// open starts the workers, and lets them begin together.
func (s *show) open(ctx context.Context) error {
	for i := range workers {
		stopAt := 0
		switch {
		case s.options.noLock:
		case i == 1:
			stopAt = s.options.adds / 4
		case i == 2:
			stopAt = s.options.adds / 2
		}
		if err := s.start(s.options.adds, stopAt); err != nil {
			return err
		}
	}
	if err := s.until(ctx, s.every(func(p *process) bool { return p.ready })); err != nil {
		return err
	}
	s.screen.Say("%d processes begin: each reads the number, adds 1, writes it, %d times.", workers, s.options.adds)
	for _, p := range s.processes {
		p.Cue()
	}
	return nil
}

// finish waits for all workers to end.
func (s *show) finish(ctx context.Context) error {
	err := s.until(ctx, s.every(func(p *process) bool { return p.over }))
	if err == nil {
		s.screen.Say("All workers are done.")
	}
	return err
}

// until waits until something is so. Meanwhile it takes what the workers report and shows how far they are.
func (s *show) until(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !so(); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-s.reports:
			if err := s.take(r); err != nil {
				return err
			}
		case <-tick.C:
			s.screen.Progress(s.total(), workers*s.options.adds, "adds, by worker", s.standing())
			still := min(time.Since(begun), s.ledger.quietFor())
			if still > 10*time.Second+10*s.options.service.TTL {
				return fmt.Errorf("nothing has moved for %v", still.Round(time.Second))
			}
		}
	}
	return nil
}

// every is the condition that all workers are so.
func (s *show) every(so func(*process) bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(s.processes, func(p *process) bool { return !so(p) })
	}
}

func (s *show) take(r program.Report[report]) error {
	i := slices.IndexFunc(s.processes, func(p *process) bool { return p.Process == r.From })
	p, told := s.processes[i], r.Told
	if r.Over {
		p.over = true
		if p != s.killed.process {
			return r.Err
		}
		return nil
	}
	switch told.Event {
	case ready:
		p.ready = true
	case holding:
		p.holding, p.token, p.read = true, told.Token, told.Read
	case late:
		p.late++
		p.lost = told.Lost
		if !told.Lost {
			s.unaware++
		}
	}
	return nil
}

// start starts one more worker, which waits for its cue.
func (s *show) start(adds, stopAt int) error {
	c := s.config
	c.Name, c.Adds, c.StopAt = fmt.Sprintf("worker %d", len(s.processes)+1), adds, stopAt
	p, err := program.Start(c.Name, c, s.reports)
	if err == nil {
		s.processes = append(s.processes, &process{Process: p})
	}
	return err
}

func (s *show) stopAll() {
	var all []*program.Process
	for _, p := range s.processes {
		all = append(all, p.Process)
	}
	program.StopAll(all)
}

// total is how many adds the resource has accepted.
func (s *show) total() (n int) {
	for _, count := range s.ledger.adds() {
		n += count
	}
	return n
}

// standing is how far each worker is.
func (s *show) standing() string {
	adds := s.ledger.adds()
	parts := make([]string, len(s.processes))
	for i, p := range s.processes {
		parts[i] = fmt.Sprint(adds[p.Name])
		if p.word != "" {
			parts[i] += " " + p.word
		}
	}
	return strings.Join(parts, ", ")
}
