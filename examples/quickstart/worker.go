//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/farsync/farsync"
)

// A worker adds 1 to the number, again and again, each time under the lock.
type worker struct {
	lock   func(context.Context) (*farsync.Lease, error)
	number *number
	stage  *stage // where the show kills it or stops it; a program of yours has no such thing
}

// work opens a store, makes the mutex and does the work.
func work(ctx context.Context, c workerConfig, s *stage) error {
	// etcd.Open with a client of etcd's, or zk.Open with the addresses of the servers.
	store, end, err := c.Service.Open(ctx, c.Name)
	if err != nil {
		return err
	}
	defer end()

	w := &worker{
		lock:   lockOf(store, c),
		number: &number{url: c.Number, who: c.Name},
		stage:  s,
	}
	if err := s.awaitStart(ctx); err != nil {
		return err
	}
	return w.repeat(ctx, c.Adds)
}

// lockOf returns what the worker locks with. Three primitives can keep others out, and a lease is a lease.
func lockOf(store *farsync.Store, c workerConfig) func(context.Context) (*farsync.Lease, error) {
	switch c.Primitive {
	case writer:
		return farsync.NewRWMutex(store, c.Service.Path).Lock
	case permit:
		all := farsync.NewSemaphore(store, c.Service.Path, 1)
		return func(ctx context.Context) (*farsync.Lease, error) { return all.Acquire(ctx, 1) }
	default:
		return farsync.NewMutex(store, c.Service.Path).Lock
	}
}

// repeat adds so many times, and does again what was refused.
func (w *worker) repeat(ctx context.Context, adds int) error {
	for done := 0; done < adds; {
		err := w.add(ctx)
		switch {
		case err == nil:
			done++
		case errors.Is(err, errLate):
			// The lock was another worker's before the request arrived. The server changed nothing, so the add is
			// still to be done.
			w.stage.reportLate(err)
		default:
			return err
		}
	}
	return nil
}

// add adds 1 under the lock.
//
// The answer of the server counts. A write that it accepted is an add, even if the lease was lost a moment later;
// so the result of Release is not asked for here.
func (w *worker) add(ctx context.Context) error {
	lease, err := w.lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := w.increment(ctx, lease.Token()); err != nil {
		return errors.Join(err, lease.Err()) // nil if still held, else it wraps farsync.ErrLost
	}
	return nil
}

// increment reads, adds and writes. Nothing in here keeps other processes from doing so at the same time.
//
// It never asks whether the lease is still held. It should: with lease.Context(ctx) in place of ctx, a request is not
// even sent once the lease is known to be lost. That is left out on purpose, to show what it cannot do: a process may
// be stopped after it has asked. The token protects the number.
func (w *worker) increment(ctx context.Context, token farsync.Token) error {
	n, err := w.number.read(ctx, token)
	if err != nil {
		return err
	}
	w.stage.between(ctx, token, n)
	return w.number.write(ctx, token, n+1)
}
