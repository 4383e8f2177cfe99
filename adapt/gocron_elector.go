package adapt

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/pause"
)

// ErrNotLeader is what a replica's elector says while another leads, or none.
var ErrNotLeader = errors.New("farsync: not the leader")

// campaignAgain is after what part of it, by chance, an elector stands again that the service has refused.
const campaignAgain = 2 * time.Second

// A GocronElector says for gocron, as its Elector, which replica runs the jobs: the leader of an election. A job that
// was started goes on when the leadership is lost meanwhile, for gocron does not ask again. A job that must not go on
// works under the Context of the Lease.
type GocronElector struct {
	election *farsync.Election
	value    string
	lease    atomic.Pointer[farsync.Lease] // nil while it does not lead
}

// NewGocronElector returns an elector, which leads only while Run runs. value is what observers of the election see;
// "" means the Holder of the store.
func NewGocronElector(election *farsync.Election, value string) *GocronElector {
	return &GocronElector{election: election, value: value}
}

// Run stands for election, leads, and stands again whenever the leadership is lost, until ctx is done. Then it resigns,
// and returns nil. ErrClosed: the Store was closed. ErrPath: the election's path is not valid.
func (g *GocronElector) Run(ctx context.Context) error {
	for {
		err := g.election.Lead(ctx, g.value, g.lead)
		switch {
		case err == nil, errors.Is(err, farsync.ErrClosed), errors.Is(err, farsync.ErrPath):
			return err
		default: // the service says no: it may think better of it
			_ = pause.For(ctx, rand.N(campaignAgain))
		}
	}
}

// lead is one time of leadership.
func (g *GocronElector) lead(ctx context.Context, lease *farsync.Lease) error {
	g.lease.Store(lease)
	defer g.lease.Store(nil)
	<-ctx.Done()
	return nil
}

// IsLeader returns nil if this replica leads, by the clock at the time of the call, and ErrNotLeader if not.
func (g *GocronElector) IsLeader(context.Context) error {
	if g.Lease() == nil {
		return ErrNotLeader
	}
	return nil
}

// Lease returns the lease on the leadership, or nil if this replica does not lead. A job takes its Token and its
// Context from there, and does not use its Do: the lease is not the job's to release.
func (g *GocronElector) Lease() *farsync.Lease {
	lease := g.lease.Load()
	if lease == nil || lease.Err() != nil {
		return nil
	}
	return lease
}
