//go:build unix

package main

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
)

// A candidate's part, given to its process as JSON.
type part struct {
	Name     string
	Service  program.Service
	Resource string // URL
}

// candidateMain is the main of a candidate's process. It stands for election until the show is over.
func candidateMain(text json.RawMessage) error {
	var p part
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	_, ctx := program.NewStage()
	// etcd.Open with a client of etcd's, or zk.Open with the addresses of the servers.
	store, end, err := p.Service.Open(ctx, p.Name)
	if err != nil {
		return err
	}
	defer end()
	election := farsync.NewElection(store, p.Service.Path)
	return election.Lead(ctx, p.Name, p.lead)
}

// lead is what a leader does: here, it writes every few milliseconds. It must return when ctx is done, for by then
// another may be elected; and what it writes carries the token, for it may have been stopped after it looked at ctx.
//
// A write that has begun is not given up when ctx is done, as at a resignation: its request would still be under way when the
// next leader writes.
//
// An error of its own would end Lead. A write that is refused after the leadership was lost is none: another leads, and this
// candidate stands again.
func (p part) lead(ctx context.Context, lease *farsync.Lease) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if err := p.write(context.WithoutCancel(ctx), lease.Token()); err != nil && lease.Err() == nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p part) write(ctx context.Context, token farsync.Token) error {
	return program.Post(ctx, p.Resource, url.Values{
		"name": {p.Name}, "token": {token.String()},
	})
}
