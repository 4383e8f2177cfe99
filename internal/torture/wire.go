//go:build unix

package main

import (
	"context"
	"slices"
	"sync"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/pause"
)

// A wire is what is between a Store and the servers: to each server two proxies, one behind the other, so that what the
// first holds back can still arrive when the second lets nothing pass. The first break with the wire, the second with a
// server as well.
type wire struct {
	near []*embedtest.Proxy
	far  []*knife
}

// A knife is a proxy that is cut for several reasons, at times for more than one at once. It lets pass again when none
// is left.
type knife struct {
	proxy *embedtest.Proxy

	mu   sync.Mutex
	cuts int // how many reasons there are. Guarded by mu.
}

func (k *knife) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cuts++
	k.proxy.Cut()
}

func (k *knife) heal() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cuts--; k.cuts == 0 {
		k.proxy.Heal()
	}
}

// lay puts a wire between a Store and the servers.
func lay(endpoints []string) (w wire, err error) {
	for _, endpoint := range endpoints {
		far, err := embedtest.StartProxy(endpoint)
		if err != nil {
			return w, err
		}
		w.far = append(w.far, &knife{proxy: far})
		near, err := embedtest.StartProxy(far.Addr())
		if err != nil {
			return w, err
		}
		w.near = append(w.near, near)
	}
	return w, nil
}

// endpoints returns what the Store connects to.
func (w wire) endpoints() (list []string) {
	for _, p := range w.near {
		list = append(list, p.Addr())
	}
	return list
}

func (w wire) close() {
	each(w.near, func(p *embedtest.Proxy) { _ = p.Close() })
	each(w.far, func(k *knife) { _ = k.proxy.Close() })
}

func each[T any](list []T, do func(T)) {
	for _, one := range list {
		do(one)
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
		each(w.far, (*knife).cut)
		each(w.near, (*embedtest.Proxy).Heal)
	}
	_ = pause.For(ctx, f.For)
	switch f.What {
	case wireRequests, wireReplies, wireReset:
		each(w.near, (*embedtest.Proxy).Reset) // what was held back is lost
	}
	each(w.near, (*embedtest.Proxy).Heal)
	if f.What == wireFading {
		each(w.far, (*knife).heal)
	}
}

// only leaves a Store no other server than that one, until undo is called.
func (w wire) only(server int) (undo func()) {
	others := slices.Delete(slices.Clone(w.far), max(server, 0), server+1)
	each(others, (*knife).cut)
	for i, p := range w.near {
		if i != server {
			p.Reset()
		}
	}
	return func() { each(others, (*knife).heal) }
}

// A loom is the wires of a process, one of each of its Stores.
type loom []wire

// only leaves a process no other server than that one, or none if that is negative, until undo is called.
func (l loom) only(server int) (undo func()) {
	var undoes []func()
	for _, w := range l {
		undoes = append(undoes, w.only(server))
	}
	return func() { each(undoes, func(undo func()) { undo() }) }
}
