package postgres

import (
	"context"
	"sync"

	"github.com/farsync/farsync/internal/sqlstore"
)

// places are the connections of the calls. A key has one of them, until a call waits for it while there are few.
type places struct {
	*sqlstore.Places

	freeKeys func() // has keys that nobody waits with give back their places

	mu    sync.Mutex
	calls context.Context
	call  context.CancelFunc // ends calls
}

func newPlaces(most int32, room *sqlstore.Room, freeKeys func()) *places {
	p := &places{freeKeys: freeKeys}
	p.Places = sqlstore.NewPlaces(int(most), room, p.demand)
	p.calls, p.call = context.WithCancel(context.Background())
	return p
}

// demand has keys give back their places if a call waits for one while there are few, or if the places are to go out of
// use.
func (p *places) demand() {
	if !p.wanted() {
		return
	}
	p.mu.Lock()
	p.call()
	p.calls, p.call = context.WithCancel(context.Background())
	p.mu.Unlock()
	p.freeKeys()
}

// wanted reports whether the place that a key has is wanted.
func (p *places) wanted() bool { return p.Waits() && p.Few() || p.Extra() }

// demanded returns a ctx that ends when the place that a key has is wanted. It has ended if the place is: a call waits,
// and room is scarce, before demand ends the ctx of that moment.
func (p *places) demanded() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted() {
		return over
	}
	return p.calls
}

// over is a ctx that has ended.
var over = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()
