package farsync

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
)

// A Pool runs tasks in goroutines, as golang.org/x/sync/errgroup does with a limit; but the limit is that of a
// Semaphore, and holds across all processes that use it. Each task runs under one of its units.
type Pool struct {
	group     *errgroup.Group
	ctx       context.Context // the pool's own, which NewPool returned
	semaphore *Semaphore
}

// NewPool returns a pool, and a context that is done when a task returns an error, when Wait returns, or when ctx is
// done, whichever is first. It panics if s is nil.
func NewPool(ctx context.Context, s *Semaphore) (*Pool, context.Context) {
	if s == nil {
		panic("farsync: NewPool: nil semaphore")
	}
	group, ctx := errgroup.WithContext(ctx)
	return &Pool{group, ctx, s}, ctx
}

// Go waits until a unit of the semaphore is held, and then runs task in a new goroutine, and returns. The unit is
// released when the task has returned.
//
// The context that task gets is the pool's, and done too when the unit is lost: then another task may run in its place
// elsewhere. A task that returns nil under a lost unit counts as failed with ErrLost. If no unit can be had, because
// the pool's context is done or the service refuses, the task is not run, and that error is the pool's.
func (p *Pool) Go(task func(context.Context) error) {
	lease, err := p.built().Acquire(p.ctx, 1)
	if err != nil {
		p.group.Go(func() error { return err })
		return
	}
	p.run(lease, task)
}

// TryGo is Go if a unit can be had without waiting for others, and reports whether the task was started. An error other
// than ErrLocked is the pool's.
func (p *Pool) TryGo(task func(context.Context) error) bool {
	lease, err := p.built().TryAcquire(p.ctx, 1)
	switch {
	case errors.Is(err, ErrLocked):
		return false
	case err != nil:
		p.group.Go(func() error { return err })
		return false
	}
	p.run(lease, task)
	return true
}

func (p *Pool) run(lease *Lease, task func(context.Context) error) {
	p.group.Go(func() error {
		return lease.Do(p.ctx, func(ctx context.Context, _ *Lease) error { return task(ctx) })
	})
}

// Wait waits for all tasks that were started, and returns the first error.
func (p *Pool) Wait() error {
	p.built()
	return p.group.Wait()
}

// built returns the semaphore. It panics for the zero Pool, which has none.
func (p *Pool) built() *Semaphore {
	mustBeMade(p.semaphore != nil, "NewPool")
	return p.semaphore
}
