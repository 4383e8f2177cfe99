//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/torture/history"
)

// inject has the faults of a schedule happen, one after another, until ctx ends. What has been broken is whole again when it
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

// A wire is what is between a process and the servers: to each server two proxies, one behind the other, so that what the first
// holds back can still arrive when the second lets nothing pass.
type wire struct{ near, far []*embedtest.Proxy }

// lay puts a wire between a process and the servers.
func lay(endpoints []string) (w wire, err error) {
	for _, endpoint := range endpoints {
		far, err := embedtest.StartProxy(endpoint)
		if err != nil {
			return w, err
		}
		w.far = append(w.far, far)
		near, err := embedtest.StartProxy(far.Addr())
		if err != nil {
			return w, err
		}
		w.near = append(w.near, near)
	}
	return w, nil
}

// endpoints returns what the process connects to.
func (w wire) endpoints() (list []string) {
	for _, p := range w.near {
		list = append(list, p.Addr())
	}
	return list
}

func (w wire) close() {
	each(w.near, func(p *embedtest.Proxy) { _ = p.Close() })
	each(w.far, func(p *embedtest.Proxy) { _ = p.Close() })
}

func each(list []*embedtest.Proxy, do func(*embedtest.Proxy)) {
	for _, p := range list {
		do(p)
	}
}

// suffer breaks a wire. It calls then when that has begun.
func (w wire) suffer(ctx context.Context, f fault, then func()) {
	switch f.What {
	case wireCut:
		each(w.near, (*embedtest.Proxy).Cut)
	case wireRequests:
		each(w.near, (*embedtest.Proxy).CutRequests)
	case wireReplies, wireDelay, wireFading:
		each(w.near, (*embedtest.Proxy).CutReplies)
	case wireOneSilent:
		w.near[f.pick(len(w.near))].Cut()
	case wireOneMute:
		w.near[f.pick(len(w.near))].CutReplies()
	case wireOneDeaf:
		w.near[f.pick(len(w.near))].CutRequests()
	}
	then()
	if f.What == wireFading {
		_ = pause.For(ctx, f.For/6)
		each(w.far, (*embedtest.Proxy).Cut)
		each(w.near, (*embedtest.Proxy).Heal)
	}
	_ = pause.For(ctx, f.For)
	switch f.What {
	case wireRequests, wireReplies, wireReset:
		each(w.near, (*embedtest.Proxy).Reset) // what was held back is lost
	}
	each(w.near, (*embedtest.Proxy).Heal)
	each(w.far, (*embedtest.Proxy).Heal)
}

// restartIn bounds how long a server takes to come back.
const restartIn = 2 * time.Minute

// only leaves a process no other server than that one, until undo is called.
func (w wire) only(server int) (undo func()) {
	for i, p := range w.far {
		if i != server {
			p.Cut()
			w.near[i].Reset()
		}
	}
	return func() { each(w.far, (*embedtest.Proxy).Heal) }
}

// onNode breaks one of these servers, or what is between it and the others. Before a server is cut off or killed it calls beside, which may
// leave clients no other server or none, and returns how to undo that.
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
