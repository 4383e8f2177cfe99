//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// An ensemble is a number of servers and the network among them.
type ensemble struct {
	servers []*server
	mesh    *mesh // nil if there is nothing between the servers
}

// Endpoints returns the endpoints of all members, in order.
func (e *ensemble) Endpoints() []string {
	endpoints := make([]string, len(e.servers))
	for i, s := range e.servers {
		endpoints[i] = s.Endpoint()
	}
	return endpoints
}

// Isolate cuts member i off from all others, in both directions, while clients still reach it. Nothing passes between
// them after Isolate has returned; connections stay open, and what was sent meanwhile arrives after Heal. It panics if
// the ensemble was started with [Bench].
func (e *ensemble) Isolate(i int) { e.between("Isolate").isolate(i) }

// Mute is Isolate in one direction: member i hears the others, and they do not hear it.
func (e *ensemble) Mute(i int) { e.between("Mute").mute(i) }

// Deafen is Isolate in the other direction: the others hear member i, and it does not hear them.
func (e *ensemble) Deafen(i int) { e.between("Deafen").deafen(i) }

// between returns the network, for a method that needs one.
func (e *ensemble) between(method string) *mesh {
	if e.mesh == nil {
		panic("embedtest: " + method + " in an ensemble started with Bench")
	}
	return e.mesh
}

// Heal takes back every Isolate, Mute and Deafen.
func (e *ensemble) Heal() {
	if e.mesh != nil {
		e.mesh.heal()
	}
}

// Restart kills all members and starts them again at the same time, as after a power cut, and waits until all are ready
// or ctx is done.
func (e *ensemble) Restart(ctx context.Context) error {
	for _, s := range e.servers {
		s.Kill()
	}
	return e.start(ctx)
}

// Close kills all members and returns when all goroutines of the ensemble have ended. Data and logs stay. Its error
// says which members had ended by themselves before. Once closed, an ensemble stays closed.
func (e *ensemble) Close() error {
	var errs []error
	for _, s := range e.servers {
		errs = append(errs, s.close())
	}
	if e.mesh != nil {
		e.mesh.close()
	}
	return errors.Join(errs...)
}

func (e *ensemble) start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range e.servers {
		group.Go(func() error { return s.Restart(ctx) })
	}
	return group.Wait()
}

// awaitLeader asks until there is one.
func (e *ensemble) awaitLeader(ctx context.Context, ask func(context.Context) (leader int, ok bool)) (int, error) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		leader, ok := ask(asking)
		cancel()
		if ok {
			return leader, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("embedtest: no leader: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
