package drivertest

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

const (
	// wallAnswer is a hang: for whatever has to happen at all, short of a session running out, on a machine that is busy
	// with other things. In a bubble of testing/synctest it costs nothing.
	wallAnswer = time.Minute
	// briefly is how long the ctx of a call lasts that a silent service does not answer.
	briefly = 100 * time.Millisecond
)

// A conformance is one thing that a driver must do.
type conformance struct {
	name string
	// why it matters, for the reader of a failure
	why string
	run func(*scene)
}

// RunDriver holds a backend to the contract of package driver, a subtest each case. Every case has its own sessions and
// its own queues, /drivertest/<random>, and leaves nothing in them.
func RunDriver(t *testing.T, b Backend) {
	t.Helper()
	if b.Open == nil || b.TTL <= 0 || b.Expire == nil || b.Delete == nil || b.Foreign == nil {
		t.Fatal("drivertest: RunDriver: a required field of Backend is missing")
	}
	if b.Case == nil {
		b.Case = func(t *testing.T, run func(t *testing.T)) { t.Helper(); run(t) }
	}
	for _, c := range conformances() {
		t.Run(c.name, func(t *testing.T) {
			b.Case(t, func(t *testing.T) {
				t.Cleanup(func() {
					if t.Failed() {
						t.Log("why it matters: " + c.why)
					}
				})
				c.run(&scene{T: t, Backend: b, queue: "/drivertest/" + rand.Text()})
			})
		})
	}
}

func conformances() []conformance {
	return slices.Concat(
		createCases, aheadCases, replaceCases, deleteCases, watchCases, proofCases, registerCases, ownedCases, tellCases,
		surveyCases, sessionCases, endCases, contextCases,
	)
}

// A scene is what a case plays in.
type scene struct {
	*testing.T
	Backend

	queue string
}

// A client is a driver with one session. Its methods, beside what the session has, are for requests that must succeed.
type client struct {
	driver.Session

	s       *scene
	service driver.Service
	renewal context.CancelFunc // nil if the session is not renewed
	kept    sync.WaitGroup     // the renewal
	once    sync.Once          // the end of the session
}

// open returns a client whose session is renewed. A machine that is busy does not end it.
func (s *scene) open() *client {
	s.Helper()
	return s.renewed(s.openIdle(s.Open(s.T)))
}

// renewed has the session of a client renewed.
func (s *scene) renewed(c *client) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c.renewal = cancel
	c.kept.Go(func() { // until release
		ttl, _ := c.Granted()
		for pause.For(ctx, ttl/4) == nil {
			bound, cancel := context.WithTimeout(ctx, ttl/4)
			_ = c.Renew(bound, nil) // the cases look at what is the case
			cancel()
		}
	})
	return c
}

// openIdle returns a client of a driver, whose session is not renewed, and lasts as long as a case.
func (s *scene) openIdle(service driver.Service) *client {
	s.Helper()
	return s.openFor(service, max(s.TTL, wallAnswer))
}

// openBrief is openIdle for a case that waits for the end of the session.
func (s *scene) openBrief(service driver.Service) *client {
	s.Helper()
	return s.openFor(service, s.TTL)
}

func (s *scene) openFor(service driver.Service, ttl time.Duration) *client {
	s.Helper()
	s.Cleanup(func() { _ = service.Close() }) // after the end of the session
	return s.openIn(service, ttl)
}

// openIn returns a client of a driver that another client of the scene closes.
func (s *scene) openIn(service driver.Service, ttl time.Duration) *client {
	s.Helper()
	opened, err := service.Open(s.ctx(), ttl)
	require.NoError(s, err)
	c := &client{Session: opened, s: s, service: service}
	s.Cleanup(func() { _ = c.finish(s.ctx()) })
	return c
}

// pair returns two such clients.
func (s *scene) pair() (a, b *client) {
	s.Helper()
	return s.open(), s.open()
}

// briefPair is pair for a case that waits for the end of the first one's session, or is about its renewals.
func (s *scene) briefPair() (a, b *client) {
	s.Helper()
	return s.renewed(s.openBrief(s.Open(s.T))), s.open()
}

// finish ends the session, if nothing has, and returns what Close did.
func (c *client) finish(ctx context.Context) (err error) {
	c.release(func() { err = c.Close(ctx) })
	return err
}

// release stops the renewal and ends the session as f does it, once.
func (c *client) release(f func()) {
	c.once.Do(func() {
		if c.renewal != nil {
			c.renewal()
			c.kept.Wait()
		}
		f()
	})
}

// ctx ends after wallAnswer.
func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wallAnswer)
	s.Cleanup(cancel)
	return ctx
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// entry returns an entry that is to be created.
func (c *client) entry(queue string, k driver.Kind) driver.Entry { return c.permit(queue, k, 1) }

func (c *client) permit(queue string, k driver.Kind, units int64) driver.Entry {
	return driver.Entry{
		Queue: queue, ID: c.NewID(queue, k, units), Kind: k, Units: units, Value: []byte("drivertest"), Since: time.Now(),
	}
}

// create creates e, and returns it with what is ahead of it.
func (c *client) create(e driver.Entry) (driver.Entry, []driver.Entry) {
	c.s.Helper()
	v, err := c.Create(c.s.ctx(), e, 0)
	require.NoError(c.s, err)
	return c.created(e, v)
}

// created checks the view of a Create.
func (c *client) created(e driver.Entry, v driver.View) (driver.Entry, []driver.Entry) {
	c.s.Helper()
	require.True(c.s, strings.HasPrefix(v.Self.ID, e.ID), "%q begins with %q", v.Self.ID, e.ID)
	require.Equal(c.s, e.Queue, v.Self.Queue)
	require.Equal(c.s, e.Kind, v.Self.Kind)
	require.False(c.s, v.Turn && e.Kind == driver.Permit, "of several who hold at once none can tell who is next")
	require.Equal(c.s, e.Units, v.Self.Units)
	require.Positive(c.s, v.Self.Revision)
	seen := c.all(v.Self)
	if v.All {
		require.Equal(c.s, ids(seen), ids(v.Entries), "what Create shows is what is ahead")
	} else if e.Kind != driver.Permit && !v.Silent { // else it may be an entry of the driver's making
		require.Subset(c.s, ids(seen), ids(v.Entries), "what Create shows is ahead: a Try fails with it")
	}
	return v.Self, seen
}

// join is create for a new entry in the scene's queue.
func (c *client) join(k driver.Kind) driver.Entry {
	c.s.Helper()
	e, _ := c.create(c.entry(c.s.queue, k))
	return e
}

// all returns everything that is ahead of e.
func (c *client) all(e driver.Entry) []driver.Entry {
	c.s.Helper()
	v, err := c.Ahead(c.s.ctx(), e, false)
	require.NoError(c.s, err)
	require.True(c.s, v.All, "Ahead was asked for everything")
	require.Equal(c.s, e.ID, v.Self.ID)
	return v.Entries
}

// in returns everything in a queue.
func (c *client) in(queue string) []driver.Entry {
	c.s.Helper()
	return c.all(driver.Entry{Queue: queue, Kind: driver.Exclusive, Units: 1})
}

// list returns what List shows. A write of the client comes before it: List may be answered by a server that is behind,
// but not behind what the same client has written.
func (c *client) list(queue string) []driver.Entry {
	c.s.Helper()
	mark, _ := c.create(c.entry(c.s.queue+"-mark", driver.Exclusive))
	c.remove(mark)
	v, err := c.List(c.s.ctx(), queue, 0)
	require.NoError(c.s, err)
	require.True(c.s, v.All)
	return v.Entries
}

// find returns e as it is.
func (c *client) find(e driver.Entry) driver.Entry {
	c.s.Helper()
	found, err := c.Find(c.s.ctx(), e)
	require.NoError(c.s, err)
	require.Equal(c.s, e.ID, found.ID)
	return found
}

// replace replaces e as it is.
func (c *client) replace(e driver.Entry, k driver.Kind, value []byte) driver.Entry {
	c.s.Helper()
	changed, err := c.Replace(c.s.ctx(), c.find(e), k, value)
	require.NoError(c.s, err)
	require.Equal(c.s, k, changed.Kind)
	return changed
}

// remove deletes e, which must be there.
func (c *client) remove(e driver.Entry) {
	c.s.Helper()
	_, found, err := c.Delete(c.s.ctx(), e)
	require.NoError(c.s, err)
	require.True(c.s, found, "%s was there", e.ID)
}

// gone requires that no entry e is to be seen.
func (c *client) gone(e driver.Entry) {
	c.s.Helper()
	_, err := c.Ahead(c.s.ctx(), e, true)
	require.ErrorIs(c.s, err, driver.ErrGone)
}

// untilExpired calls f until the driver says that its session is over. Meanwhile the connection may break on it.
func (c *client) untilExpired(f func() error) {
	c.s.Helper()
	until := time.Now().Add(wallAnswer)
	for {
		err := f()
		require.Error(c.s, err, "the session is over")
		outcome := c.service.Outcome(err)
		if outcome == driver.Expired {
			return
		}
		require.Contains(c.s, []driver.Outcome{driver.Unknown, driver.NotDone}, outcome, err)
		require.Less(c.s, time.Now(), until, "the driver does not learn that its session is over: %v", err)
		require.NoError(c.s, pause.For(context.Background(), c.s.TTL/20))
	}
}

// soon returns what comes out of done within the bound.
func soon[T any](s *scene, done <-chan T, wall time.Duration) (v T) {
	s.Helper()
	timeout := time.NewTimer(wall)
	defer timeout.Stop()
	select {
	case v = <-done:
	case <-timeout.C:
		require.FailNow(s, "the call has not returned", "after %v", wall)
	}
	return v
}

// prompt runs f, which must return though nothing answers it.
func (s *scene) prompt(f func() error) error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return soon(s, done, wallAnswer)
}

func ids(list []driver.Entry) []string {
	ids := []string{}
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}
