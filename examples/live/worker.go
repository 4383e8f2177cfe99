//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
	"github.com/farsync/farsync/internal/pause"
)

// A worker's part, given to its process as JSON.
type part struct {
	Name     string
	Role     role
	Service  program.Service
	Patience time.Duration
}

// A role is what a worker does.
type role string

const (
	checkout role = "checkout" // one at a time
	reports  role = "report"   // two at a time
	backup   role = "backup"   // for long
	ledger   role = "ledger"   // first one lock, then another
	audit    role = "audit"    // the same two in the other order
)

// A report is what a worker tells the show.
type report struct{ What event }

type event string

const (
	ready  event = "ready"
	held   event = "held"
	lost   event = "lost"
	gaveUp event = "gave up"
)

// workerMain is the main of a worker's process.
func workerMain(text json.RawMessage) error {
	var p part
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	stage, ctx := program.NewStage()
	store, end, err := p.Service.Open(ctx, p.Name)
	if err != nil {
		return err
	}
	defer end()
	stage.Tell(report{ready})
	if err := stage.Await(ctx); err != nil {
		return err
	}
	w := worker{part: p, stage: stage, store: store}
	for {
		err := w.once(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, farsync.ErrLost):
			stage.Tell(report{lost})
		case err != nil:
			return err
		}
	}
}

// A worker is at work.
type worker struct {
	part

	stage *program.Stage
	store *farsync.Store
}

func (w worker) path(name string) string { return w.Service.Path + "/" + name }

// once does what its role says. An error that wraps ErrLost means that the lock was lost meanwhile.
func (w worker) once(ctx context.Context) error {
	switch w.Role {
	case checkout:
		return w.hold(ctx, farsync.NewMutex(w.store, w.path("checkout")).Lock, time.Second)
	case reports:
		semaphore := farsync.NewSemaphore(w.store, w.path("reports"), 2)
		return w.hold(ctx, func(ctx context.Context) (*farsync.Lease, error) { return semaphore.Acquire(ctx, 1) }, 3*time.Second)
	case backup:
		return w.hold(ctx, farsync.NewMutex(w.store, w.path("backup")).Lock, 4*w.Service.TTL)
	case ledger:
		return w.both(ctx, "db/accounts", "db/ledger")
	default:
		return w.both(ctx, "db/ledger", "db/accounts")
	}
}

// hold acquires a lock, works for a time and releases it.
func (w worker) hold(ctx context.Context, acquire func(context.Context) (*farsync.Lease, error), work time.Duration) error {
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	return lease.Do(ctx, func(ctx context.Context, _ *farsync.Lease) error {
		w.stage.Tell(report{held})
		return pause.For(ctx, work)
	})
}

// both takes a lock, and then another with the context of the first: that is how others can tell that it waits while it holds. Two
// that do so in opposite orders wait for one another, until the patience of one ends.
func (w worker) both(ctx context.Context, first, second string) error {
	lease, err := farsync.NewMutex(w.store, w.path(first)).Lock(ctx)
	if err != nil {
		return err
	}
	err = lease.Do(ctx, func(ctx context.Context, _ *farsync.Lease) error {
		w.stage.Tell(report{held})
		if err := pause.For(ctx, time.Second); err != nil { // so that the other has its first as well
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, w.Patience)
		defer cancel()
		other, err := farsync.NewMutex(w.store, w.path(second)).Lock(ctx)
		if err != nil {
			return err
		}
		w.stage.Tell(report{held})
		_ = other.Release() // it is held for no longer than the first
		return nil
	})
	switch {
	case errors.Is(err, farsync.ErrLost):
		return err // which has ended the wait for the other, too
	case errors.Is(err, context.DeadlineExceeded):
		w.stage.Tell(report{gaveUp})
	case err != nil:
		return err
	}
	return pause.For(ctx, 5*time.Second)
}
