package drivertest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// waiting is a Watch that is under way.
type waiting struct {
	c      *client
	e      driver.Entry
	cancel context.CancelFunc
	stands chan struct{} // closed when the Watch has said so
	done   chan woken
}

type woken struct {
	proof *driver.View
	err   error
}

// start starts a Watch on behalf of e.
func (c *client) start(e driver.Entry, on ...driver.Target) *waiting {
	ctx, cancel := context.WithCancel(c.s.ctx())
	w := &waiting{c: c, e: e, cancel: cancel, stands: make(chan struct{}), done: make(chan woken, 1)}
	go func() {
		proof, err := c.Watch(ctx, e, on, sync.OnceFunc(func() { close(w.stands) }))
		w.done <- woken{proof, err}
	}()
	return w
}

// watch is start, for a Watch that stands or has returned.
func (c *client) watch(e driver.Entry, on ...driver.Target) *waiting {
	c.s.Helper()
	w := c.start(e, on...)
	begun := make(chan struct{})
	go func() { // ends with the Watch, at the latest
		defer close(begun)
		select {
		case <-w.stands:
		case got := <-w.done:
			w.done <- got
		}
	}()
	soon(c.s, begun, wallAnswer)
	return w
}

// stood reports whether the Watch has said that it stands.
func (w *waiting) stood() bool {
	select {
	case <-w.stands:
		return true
	default:
		return false
	}
}

// requests makes some requests.
func (c *client) requests() error {
	for range 3 {
		if _, err := c.List(c.s.ctx(), c.s.queue, 1); err != nil {
			return err
		}
	}
	return nil
}

// wakes requires that the Watch returns, and that its proof, if there is one, is what a look shows.
func (w *waiting) wakes() {
	w.c.s.Helper()
	defer w.cancel()
	got := soon(w.c.s, w.done, wallAnswer)
	require.NoError(w.c.s, got.err)
	if got.proof == nil {
		return
	}
	require.NotEmpty(w.c.s, w.e.ID, "nothing is proved about no entry")
	require.True(w.c.s, got.proof.All, "a proof shows everything that is ahead")
	require.Equal(w.c.s, w.e.ID, got.proof.Self.ID)
	require.Equal(w.c.s, ids(w.c.all(w.e)), ids(got.proof.Entries))
}

// ends cancels the Watch, which must return at once.
func (w *waiting) ends() {
	w.c.s.Helper()
	w.cancel()
	got := soon(w.c.s, w.done, wallAnswer)
	require.Error(w.c.s, got.err)
	require.Contains(w.c.s, []driver.Outcome{driver.Unknown, driver.NotDone}, w.c.service.Outcome(got.err))
}

// watches requires that at least one of three Watches does not end by itself while some requests take place.
func (c *client) watches(e driver.Entry, on ...driver.Target) {
	c.s.Helper()
	for range 3 {
		w := c.watch(e, on...)
		c.list(c.s.queue)
		select {
		case got := <-w.done:
			require.NoError(c.s, got.err)
		default:
			require.True(c.s, w.stood())
			w.ends()
			return
		}
	}
	require.Fail(c.s, "the Watch ends by itself each time")
}

// joinUntil creates a candidate and waits for the Watch to end.
func (c *client) joinUntil(w *waiting) driver.Entry {
	c.s.Helper()
	e := c.join(driver.Candidate)
	w.wakes()
	return e
}

func gone(e driver.Entry) driver.Target    { return driver.Target{Entry: e, What: driver.Gone} }
func changed(e driver.Entry) driver.Target { return driver.Target{Entry: e, What: driver.Changed} }
func told(e driver.Entry) driver.Target    { return driver.Target{Entry: e, What: driver.Told} }

func joined(queue string) driver.Target {
	return driver.Target{Entry: driver.Entry{Queue: queue}, What: driver.Joined}
}

func written(queue string, version int64) driver.Target {
	return driver.Target{Entry: driver.Entry{Queue: queue, Version: version}, What: driver.Registered}
}
