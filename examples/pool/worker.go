//go:build unix

package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
)

// A worker's part, given to its process as JSON.
type part struct {
	Name    string
	Service program.Service
	Limit   int64  // 0: none
	Server  string // URL
	From    int    // the first of its jobs
	Jobs    int    // how many it has
}

// A report is what a worker tells the show.
type report struct{}

// workerMain is the main of a worker's process.
func workerMain(text json.RawMessage) error {
	var p part
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	stage, ctx := program.NewStage()
	if p.Limit == 0 {
		return p.workUnlimited(ctx, stage)
	}
	// etcd.Open with a client of etcd's, or zk.Open with the addresses of the servers.
	store, end, err := p.Service.Open(ctx, p.Name)
	if err != nil {
		return err
	}
	defer end()
	stage.Tell(report{})
	if err := stage.Await(ctx); err != nil {
		return err
	}
	return p.work(ctx, farsync.NewSemaphore(store, p.Service.Path, p.Limit))
}

// work does the jobs in a pool. Go waits until there is a unit of the semaphore for the job, so a process never has
// more goroutines than it may have jobs at work.
func (p part) work(ctx context.Context, limit *farsync.Semaphore) error {
	pool := farsync.NewPool(ctx, limit)
	for i := range p.Jobs {
		pool.Go(func(ctx context.Context) error { return p.call(ctx, p.From+i) })
	}
	return pool.Wait()
}

// call does a job. Its ctx ends when the job's unit is lost: then another job may be begun in its place, by whatever
// process, so this one has to stop.
func (p part) call(ctx context.Context, job int) error {
	return program.Post(ctx, p.Server, url.Values{"job": {strconv.Itoa(job)}})
}

// workUnlimited is work for -no-limit: what each process does by itself is bounded all the same, to as many as all
// together should do.
func (p part) workUnlimited(ctx context.Context, stage *program.Stage) error {
	stage.Tell(report{})
	if err := stage.Await(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(5)
	for i := range p.Jobs {
		group.Go(func() error { return p.call(ctx, p.From+i) })
	}
	return group.Wait()
}
