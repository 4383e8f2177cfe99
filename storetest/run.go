package storetest

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

// The bounds are what counts as a hang on the busiest machine, and say nothing of how long a call takes. In a bubble of
// testing/synctest they cost nothing.
const (
	// wallAnswer is for whatever has to happen at all, short of a session running out.
	wallAnswer = 30 * time.Second
	// wallPrompt is for what has to happen when a ctx ends, whatever the service does.
	wallPrompt = 30 * time.Second
)

// A conformance is one thing that a Store must do.
type conformance struct {
	name string
	// why it matters, for whoever sees it fail
	why string
	run func(*scene)
}

// Run holds a backend to the contract of recipe.Store, a subtest each case. Every case has its own clients and its own
// queues, /storetest/<random>, and leaves nothing in them.
func Run(t *testing.T, b Backend) {
	if b.Open == nil || b.Expire == nil || b.Delete == nil || b.Foreign == nil || b.Stray == nil {
		t.Fatal("storetest: Run: a required field of Backend is nil")
	}
	if b.Case == nil {
		b.Case = func(t *testing.T, run func(t *testing.T)) { run(t) }
	}
	for _, c := range slices.Concat(
		joinCases, waitCases, leaveCases, sessionCases, closeCases, changeCases, sizeCases, vacantCases, askCases,
	) {
		t.Run(c.name, func(t *testing.T) {
			b.Case(t, func(t *testing.T) {
				t.Cleanup(func() {
					if t.Failed() {
						t.Log("why it matters: " + c.why)
					}
				})
				c.run(&scene{T: t, Backend: b, queue: "/storetest/" + rand.Text()})
			})
		})
	}
}

// A scene is what a case plays in.
type scene struct {
	*testing.T
	Backend
	queue string
}

func (s *scene) open() Client {
	s.Helper()
	c := s.Open(s.T)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// ctx ends after wallAnswer.
func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wallAnswer)
	s.Cleanup(cancel)
	return ctx
}

func (s *scene) exclusive(queue string) recipe.Request {
	return recipe.Request{Queue: queue, Kind: recipe.Exclusive, Units: 1, Rule: recipe.ExclusiveRule()}
}

func (s *scene) read() recipe.Request {
	return recipe.Request{Queue: s.queue, Kind: recipe.Read, Units: 1, Rule: recipe.SharedRule()}
}

func (s *scene) write() recipe.Request {
	return recipe.Request{Queue: s.queue, Kind: recipe.Write, Units: 1, Rule: recipe.ExclusiveRule()}
}

// join joins, which must succeed.
func (s *scene) join(c Client, r recipe.Request) (recipe.Entry, []recipe.Entry) {
	s.Helper()
	e, blockers, err := c.Join(s.ctx(), r)
	require.NoError(s, err)
	require.Equal(s, r.Queue, e.Queue)
	require.NotEmpty(s, e.ID)
	require.NotNil(s, e.Session)
	return e, blockers
}

// enter is join to the scene's queue under the exclusive rule, for those who do not care what blocks.
func (s *scene) enter(c Client) recipe.Entry {
	s.Helper()
	e, _ := s.join(c, s.exclusive(s.queue))
	return e
}

func (s *scene) leave(c Client, e recipe.Entry) {
	s.Helper()
	require.NoError(s, c.Leave(s.ctx(), e))
}

// blockers asks for them, which must succeed.
func (s *scene) blockers(c Client, e recipe.Entry, r recipe.Rule) []recipe.Entry {
	s.Helper()
	blockers, err := c.Blockers(s.ctx(), e, r)
	require.NoError(s, err)
	return blockers
}

// entries returns what c sees of a queue. A write of c comes before it: a read may be served by a server that is
// behind, but not behind what the same client has written.
func (s *scene) entries(c Client, queue string) []recipe.Entry {
	s.Helper()
	mark, _ := s.join(c, s.exclusive(s.queue+"-mark"))
	s.leave(c, mark)
	list, err := c.Entries(s.ctx(), queue)
	require.NoError(s, err)
	return list
}

// untilEmpty waits until c sees nobody in the scene's queue.
func (s *scene) untilEmpty(c Client) {
	s.Helper()
	ctx := s.ctx()
	for {
		list, err := c.Entries(ctx, s.queue)
		require.NoError(s, err)
		if len(list) == 0 {
			return
		}
		require.NoError(s, c.Wait(ctx, list...), "still there: %s", ids(list))
	}
}

// during starts f, and has it be in flight for as long as some requests of c take: long enough that it usually has
// got to where it waits, which no case relies on.
func (s *scene) during(c Client, f func() error) <-chan error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for range 3 {
		_, err := c.Entries(s.ctx(), s.queue)
		require.NoError(s, err)
	}
	return done
}

// soon returns what comes out of done within the bound.
func (s *scene) soon(done <-chan error, wall time.Duration) error {
	s.Helper()
	timeout := time.NewTimer(wall)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		require.FailNow(s, "the call has not returned", "after %v", wall)
		return nil
	}
}

// prompt runs f, which must return within wallPrompt.
func (s *scene) prompt(f func() error) error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	return s.soon(done, wallPrompt)
}

// over waits until a session has ended.
func (s *scene) over(session *recipe.Session) {
	s.Helper()
	wall := time.NewTimer(max(wallAnswer, 10*session.TTL()))
	defer wall.Stop()
	select {
	case <-session.Done():
	case <-wall.C:
		require.FailNow(s, "the client has not noticed that its session is over")
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ids returns those of the entries. The size of a queue, which is among what a permit waits for, is none.
func ids(list []recipe.Entry) []string {
	ids := []string{}
	for _, e := range list {
		if e.Kind != recipe.Size {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
