package farsync

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync/internal/goroutine"
)

// A Pool runs tasks in goroutines, as golang.org/x/sync/errgroup does with a limit; but the limit is a Semaphore's, and
// holds across all processes that use it. Each task runs under one of its units.
//
// A task gets the context of its unit's lease, and not the lease: the token of a unit fences nothing. Work that needs the
// lease, for Asked or for a Guard, takes it with Semaphore.Acquire and runs with Lease.Do in a goroutine of its own.
//
// A task that calls Go keeps its unit while it waits for another. Where tasks hold all units, and each calls Go, they
// wait for one another until the pool's context is done. The wait of such a task is published with the task's own
// unit, as by a Lock under Lease.Context, so Participants shows it, and farsync's page and command show a deadlock: see
// Participant.Under. A goroutine that a task has started is not known to belong to the task.
type Pool struct {
	group     *errgroup.Group
	ctx       context.Context // of the tasks
	semaphore *Semaphore

	mu    sync.Mutex
	tasks map[uint64]*Lease // the units of the tasks that run, by the number of the task's goroutine
}

// NewPool returns a pool. Its tasks get a context that is done when one of them returns an error, when Wait returns, or
// when ctx is done, whichever is first. It panics if s is nil.
func NewPool(ctx context.Context, s *Semaphore) *Pool {
	if s == nil {
		panic("farsync: NewPool: nil semaphore")
	}
	group, ctx := errgroup.WithContext(ctx)
	return &Pool{group: group, ctx: ctx, semaphore: s, tasks: map[uint64]*Lease{}}
}

// Go waits until a unit of the semaphore is held, and then runs task in a new goroutine, and returns. The unit is
// released when the task has returned.
//
// The context that task gets is done when the pool's is, and when the unit is lost: then another task may run in its
// place elsewhere. It may be done when the task begins. A task that returns nil under a lost unit counts as failed with
// ErrLost. If no unit can be had, because the pool's context is done or the service refuses, the task is not run, and
// that error is the pool's. So after a task has failed, and after Wait has returned, Go runs nothing, and Wait tells
// why.
func (p *Pool) Go(task func(context.Context) error) {
	lease, err := p.built().Acquire(p.under(), 1)
	if err != nil {
		p.group.Go(func() error { return err })
		return
	}
	p.run(lease, task)
}

// TryGo is Go if a unit can be had without waiting for others, and reports whether the task is run. An error other
// than ErrLocked is the pool's.
func (p *Pool) TryGo(task func(context.Context) error) bool {
	lease, err := p.built().TryAcquire(p.under(), 1)
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

// run runs a task whose unit is held. It is not Lease.Do, which leaves out its function where ctx is done: another task
// may fail after Go has returned and before this goroutine begins. TryGo has reported that the task is run, and its
// caller may wait for what the task does, so the task is run, and its context is done.
func (p *Pool) run(lease *Lease, task func(context.Context) error) {
	p.group.Go(func() (err error) {
		defer func() { err = with(finish(lease), err) }() // also if task panics
		ctx, cancel := lease.Context(p.ctx)
		defer cancel()
		if n, ok := goroutine.Number(); ok {
			p.begins(n, lease)
			defer p.ends(n)
		}
		return task(ctx)
	})
}

func (p *Pool) begins(n uint64, lease *Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks[n] = lease
}

func (p *Pool) ends(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, n)
}

// under returns the context with which a caller of Go waits. Where the caller is a task of the pool, the context stands
// for the task's unit. Go has no parameter for a context, as errgroup's has none, so the task is told by its goroutine.
// Nothing is decided by that: a unit is held or not as before, and what the service shows of the wait is for people.
func (p *Pool) under() context.Context {
	n, ok := goroutine.Number()
	if !ok {
		return p.ctx
	}
	p.mu.Lock()
	lease := p.tasks[n]
	p.mu.Unlock()
	if lease == nil {
		return p.ctx
	}
	return stand(p.ctx, lease.store, lease.path, lease)
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
