//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/farsync/farsync/examples/internal/program"
)

// An incident is a worker that came to grief while it held the lock.
type incident struct {
	process *process
	at      time.Time
	free    time.Duration // until another worker had the lock
}

// killOne kills worker 2 between its read and its write, and has a new process do what it leaves undone.
func (s *show) killOne(ctx context.Context) error {
	p := s.processes[1]
	if err := s.until(ctx, func() bool { return p.holding }); err != nil {
		return err
	}
	p.word = "killed"
	p.Kill()
	s.killed = incident{process: p, at: time.Now()}
	s.screen.Say("%s holds the lock, has read %d and not yet written: it is killed (SIGKILL). "+
		"Nobody releases its lock, so all wait for the TTL to pass.", p.Name, p.read)
	if err := s.awaitFree(ctx, &s.killed); err != nil {
		return err
	}
	left := s.options.adds - s.ledger.adds()[p.Name]
	if err := s.start(left, 0); err != nil {
		return err
	}
	heir := s.processes[len(s.processes)-1]
	if err := s.until(ctx, func() bool { return heir.ready }); err != nil {
		return err
	}
	s.screen.Say("%s begins: it does the %d adds that %s has left undone.", heir.Name, left, p.Name)
	heir.Cue()
	return nil
}

// stopOne stops worker 3 between its read and its write, until others have added, and lets it go on.
func (s *show) stopOne(ctx context.Context) error {
	p := s.processes[2]
	if err := s.until(ctx, func() bool { return p.holding }); err != nil {
		return err
	}
	p.word = "stopped"
	p.Pause()
	s.stopped = incident{process: p, at: time.Now()}
	s.screen.Say("%s holds the lock, has read %d and not yet written: it is stopped (SIGSTOP).", p.Name, p.read)
	if err := s.awaitFree(ctx, &s.stopped); err != nil {
		return err
	}
	few := p.read + min(10, s.options.adds/2)
	if err := s.until(ctx, func() bool { return s.total() >= few }); err != nil {
		return err
	}
	refusals := p.late
	s.screen.Say("%s goes on (SIGCONT) after %s. To it no time has passed: it sends its write.",
		p.Name, program.Seconds(time.Since(s.stopped.at)))
	p.Cue()
	p.Resume()
	p.word = ""
	err := s.until(ctx, func() bool {
		write, _, sent := s.ledger.writeWith(p.token)
		return sent && (!write.refused || p.late > refusals)
	})
	if err != nil {
		return err
	}
	write, mark, _ := s.ledger.writeWith(p.token)
	sent := fmt.Sprintf("Its write of %d, with token %d,", write.value, write.token)
	switch {
	case !write.refused:
		s.screen.Say("%s was ACCEPTED, although token %d had been there: what others added meanwhile is lost.", sent, mark)
	case p.lost:
		s.screen.Say("%s was refused: the mark was %d. Its lease says that it is lost. It does that add again.", sent, mark)
	default:
		s.screen.Say("%s was refused: the mark was %d. But its lease does NOT say that it is lost.", sent, mark)
	}
	return nil
}

// awaitFree waits until another worker has the lock that the incident's worker held.
func (s *show) awaitFree(ctx context.Context, i *incident) error {
	err := s.until(ctx, func() bool {
		_, ok := s.ledger.next(i.process.token)
		return ok
	})
	if err != nil {
		return err
	}
	next, _ := s.ledger.next(i.process.token)
	i.free = next.at.Sub(i.at)
	s.screen.Say("The lock is free again after %s: %s has it, and has read %d.", program.Seconds(i.free), next.who, next.value)
	return nil
}
