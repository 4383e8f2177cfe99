package electiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/internal/locktest"
)

// writeEvery is how often a leader writes.
const writeEvery = 5 * time.Millisecond

var errRefused = errors.New("refused: another leads with a higher token")

// An election is one path with its candidates, its resource and an observer.
type election struct {
	*scene
	path     string
	resource *resource
	observer *observer
	section  *locktest.Section // a term is a visit

	count      int // of all that ever stood
	candidates map[string]*candidate
}

// newElection returns an election with so many candidates, observed from the store.
func (s *scene) newElection(candidates int, from Client) *election {
	e := &election{scene: s, path: newPath(), resource: newResource(), candidates: map[string]*candidate{}}
	e.section = locktest.NewSection(nil, 1)
	e.observer = s.observe(from, e.path)
	for range candidates {
		e.stand()
	}
	return e
}

// A candidate leads, time and again, on a client of its own, until it is stopped.
type candidate struct {
	name   string
	client Client
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	refused     chan struct{} // closed once a write of it was
	onceRefused sync.Once
}

// stand adds a candidate.
func (e *election) stand() {
	e.count++
	ctx, cancel := context.WithCancel(e.ctx)
	c := &candidate{
		name: fmt.Sprintf("candidate %d", e.count), client: e.Open(e, e.TTL), cancel: cancel,
		done: make(chan struct{}), refused: make(chan struct{}),
	}
	e.candidates[c.name] = c
	lead := farsync.NewElection(c.client.Store, e.path)
	go func() { // stop joins it
		defer close(c.done)
		c.err = lead.Lead(ctx, c.name, func(term context.Context, lease *farsync.Lease) error {
			defer e.section.Enter(term, 1)()
			held := func() bool { return term.Err() == nil }
			err := work(ctx, term, func() (bool, error) { return e.resource.write(c.name, lease.Token(), held), nil })
			if errors.Is(err, errRefused) {
				c.onceRefused.Do(func() { close(c.refused) })
				return nil // the leadership is lost, and it stands again
			}
			return err
		})
	}()
	e.Cleanup(func() { _ = e.stop(c) })
}

// work is what a leader does in its term: it writes, again and again. When the leadership is lost it goes on, against the
// rules, until it is refused, for a resource has to bear that too. A leader that is refused before goes on until it
// knows. work ends when ctx does.
func work(ctx, term context.Context, write func() (admitted bool, err error)) error {
	again := time.NewTicker(writeEvery)
	defer again.Stop()
	for ctx.Err() == nil && !errors.Is(context.Cause(term), farsync.ErrClosed) {
		admitted, err := write()
		switch {
		case err != nil:
			return err
		case !admitted && term.Err() != nil:
			return errRefused
		}
		<-again.C
	}
	return nil
}

// stop ends a candidate and closes its client.
func (e *election) stop(c *candidate) error {
	c.cancel()
	_ = c.client.Close() // a client that is cut off cannot say that it leaves
	<-c.done
	return ended(c.name, c.err)
}

// stopAll stops all candidates.
func (e *election) stopAll() error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, c := range e.candidates {
		all.Go(func() {
			err := e.stop(c)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
