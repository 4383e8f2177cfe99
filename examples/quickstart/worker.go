//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/etcd"
)

// A worker adds 1 to the number, again and again, each time under the lock.
type worker struct {
	mutex  *farsync.Mutex
	number *number
	stage  *stage // where the show kills it or stops it; a program of yours has no such thing
}

// work opens a store, makes the mutex and does the work.
func work(ctx context.Context, c workerConfig, s *stage) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := etcd.Open(ctx, client, &etcd.Options{TTL: c.TTL, Holder: c.Name})
	if err != nil {
		return err
	}
	defer store.Close()

	w := &worker{
		mutex:  farsync.NewMutex(store, c.Path),
		number: &number{url: c.Number, who: c.Name},
		stage:  s,
	}
	if err := s.awaitStart(ctx); err != nil {
		return err
	}
	return w.repeat(ctx, c.Adds)
}

// repeat adds so many times, and does again what was refused.
func (w *worker) repeat(ctx context.Context, adds int) error {
	for done := 0; done < adds; {
		err := w.add(ctx)
		switch {
		case err == nil:
			done++
		case errors.Is(err, errLate):
			// The lock was somebody else's before the request arrived. The server changed nothing, so the add is
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
// What counts is what the server said. A write that it accepted is an add, even if the lease was lost a moment later;
// so the result of Release is not asked for here.
func (w *worker) add(ctx context.Context) error {
	lease, err := w.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := w.increment(ctx, lease.Token()); err != nil {
		return errors.Join(err, lease.Err()) // nil if still held, else it wraps farsync.ErrLost
	}
	return nil
}

// increment reads, adds and writes. Nothing in here keeps anybody else from doing so at the same time.
//
// It never asks whether the lease is still held. It should: with lease.Context(ctx) in place of ctx, a request is not
// even sent once the lease is known to be lost. That is left out on purpose, to show what it cannot do: a process may
// be stopped after it has asked. What protects the number is the token.
func (w *worker) increment(ctx context.Context, token farsync.Token) error {
	n, err := w.number.read(ctx, token)
	if err != nil {
		return err
	}
	w.stage.between(ctx, token, n)
	return w.number.write(ctx, token, n+1)
}
