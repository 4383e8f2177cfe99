//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/torture/history"
)

// inject has the faults of a schedule happen, one after another, until ctx ends. Everything is mended again when it
// returns. Its error says that something could not be broken or mended.
func inject(ctx context.Context, from *schedule, happen func(context.Context, fault) error) error {
	f := from.Next()
	for ; pause.For(ctx, f.After) == nil; f = from.Next() {
		if err := happen(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.What, err)
		}
	}
	return nil
}

// pick returns which of n a fault is for.
func (f fault) pick(n int) int { return min(int(f.On*float64(n)), n-1) }

// restartIn bounds how long a server takes to come back.
const restartIn = 2 * time.Minute

// onNode breaks one of these servers, or what is between it and the others. Before a server is cut off or killed it
// calls beside, which may leave clients no other server or none, and returns how to undo that.
func (s *service) onNode(ctx context.Context, f fault, among []int, beside func(server int) (undo func())) error {
	on := among[f.pick(len(among))]
	switch f.What {
	case nodeKillFirst, nodeStopFirst, nodeCutFirst, nodeMute, nodeDeaf, nodePart:
		leader, err := s.leader(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		on = leader
	}
	mending, cancel := context.WithTimeout(context.WithoutCancel(ctx), restartIn)
	defer cancel()
	m := s.members[on]
	switch f.What {
	case nodeKill, nodeKillFirst, nodeEmpty:
		if f.What != nodeKillFirst {
			defer beside(on)()
		}
		s.kill(m)
		if f.What == nodeEmpty {
			if err := m.(interface{ Forget() error }).Forget(); err != nil {
				return err
			}
		}
		_ = pause.For(ctx, f.For)
		return m.Restart(mending)
	case nodeStop, nodeStopFirst:
		m.Pause()
		_ = pause.For(ctx, f.For)
		m.Resume()
		return nil
	case nodeCut, nodeCutFirst, nodeMute, nodeDeaf:
		defer beside(on)()
		switch f.What {
		case nodeMute:
			s.mute(on)
		case nodeDeaf:
			s.deafen(on)
		default:
			s.isolate(on)
		}
		_ = pause.For(ctx, f.For)
		s.heal()
		return nil
	case nodePart:
		defer beside(on)()
		s.isolate(on)
		var others errgroup.Group
		for i, other := range s.members {
			if i != on {
				others.Go(func() error {
					other.Kill()
					return other.Restart(mending)
				})
			}
		}
		err := others.Wait()
		_ = pause.For(ctx, f.For)
		s.heal()
		return err
	case nodeAll:
		return s.restart(mending)
	default:
		return errors.New("no such fault")
	}
}

// kill kills a server, and notes when.
func (s *service) kill(m member) {
	from := history.Now()
	m.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills = append(s.kills, history.Span{From: from, To: history.Now()})
}
