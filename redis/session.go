package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// A session is one member of the zset of sessions, as the process that keeps it sees it.
type session struct {
	driver.Optional

	*service
	id   string
	ttl  time.Duration
	life context.Context // the session's own: done when it is closed or dropped
	end  context.CancelFunc
	run  sync.WaitGroup // hear, and the requests under way; joined by stop

	mu      sync.Mutex
	over    bool     // Invariant: run is not added to once it is true
	burying bool     // bury is under way
	link    *link    // the one in use; replaced by Reset
	known   *edition // what the server was given last; nil before
	from    time.Time
	clock   clock
	mail    mailbox
}

func newSession(s *service, ttl time.Duration) *session {
	in := &session{Optional: driver.Unsupported, service: s, id: rand.Text(), ttl: ttl, link: s.newLink(), mail: newMailbox()}
	in.life, in.end = context.WithCancel(context.Background())
	return in
}

// begin is what Open does: it subscribes before the session is there.
func (s *session) begin(ctx context.Context) error {
	_, err := s.call(ctx, func(ctx context.Context, l *link) (answer, error) {
		run, err := s.inspect(ctx, l)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = newEdition(s.options.Namespace, run)
		return nil, err
	})
	if errors.Is(err, errReplica) && s.to.MasterName == "" {
		return outcomeError{err, driver.Refused}
	}
	if err != nil {
		return err
	}
	heard := make(chan error, 1)
	s.run.Go(func() { s.hear(heard) })
	select {
	case err := <-heard:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return notDone(ctx)
	}
	_, err = s.renew(ctx, "open")
	return err
}

// call makes a request, and returns when it is answered or ctx has ended. What go-redis does not give up then continues
// in the background until its timeout, or until the session is closed or dropped.
func (s *session) call(ctx context.Context, send func(context.Context, *link) (answer, error)) (answer, error) {
	if ctx.Err() != nil {
		return nil, notDone(ctx)
	}
	type result struct {
		answer
		err error
	}
	done := make(chan result, 1)
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, errEnded
	}
	l := s.link
	s.run.Go(func() {
		a, err := send(ctx, l)
		done <- result{a, err}
	})
	s.mu.Unlock()
	select {
	case r := <-done:
		if r.err != nil && s.life.Err() != nil {
			return nil, fmt.Errorf("%w: %w", errEnded, r.err)
		}
		return r.answer, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// NewID returns the kind, the units and random text. All random texts have one length.
func (s *session) NewID(_ string, k driver.Kind, units int64) string {
	letter := k.String()[:1]
	if k == driver.Exclusive {
		letter = "m"
	}
	if k == driver.Permit {
		letter = "s" + strconv.FormatInt(units, 10)
	}
	return letter + "-" + rand.Text()
}

// Granted returns what Open and Renew have noted.
func (s *session) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Renew moves the deadline of the session, and ends sessions that have passed theirs.
func (s *session) Renew(ctx context.Context, _ []driver.Entry) error {
	a, err := s.renew(ctx, "renew")
	if err == nil && a.number(1) > 0 {
		s.bury()
	}
	return err
}

// bury goes on with what a renewal has left: a script ends only so much at a time, and a process that dies may leave thousands
// of entries. It does so in a goroutine that Drop joins, one at a time, for the renewal is done.
func (s *session) bury() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.burying {
		return
	}
	s.burying = true
	s.run.Go(func() {
		for more := true; more; {
			a, err := s.eval(s.life, "bury")
			more = err == nil && a.number(0) > 0
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.burying = false
	})
}

// renew counts from before the request was sent, the server from when it runs the script, which is later.
func (s *session) renew(ctx context.Context, script string) (answer, error) {
	sent := time.Now()
	a, err := s.eval(ctx, script, s.id, s.ttl.Microseconds())
	if err == nil && s.options.Replicas > 0 {
		err = s.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from = sent
	}
	if step := s.clock.step(a.number(0), sent, time.Now()); step != 0 {
		s.log.Warn("the clock of the redis server was set: a step forward of more than two thirds of the TTL ends sessions early",
			"step", step)
	}
	return a, nil
}

// confirm makes sure that the replicas have what was written before.
func (s *session) confirm(ctx context.Context) error {
	_, err := s.call(ctx, func(ctx context.Context, l *link) (answer, error) {
		// WAIT is about the writes of its own connection.
		conn := l.Conn()
		defer func() { _ = conn.Close() }()
		if _, err := s.evalOn(ctx, conn, "renew", []any{s.id, s.ttl.Microseconds()}); err != nil {
			return nil, err
		}
		n, err := conn.Wait(ctx, s.options.Replicas, s.ttl/8).Result()
		if err == nil && n < int64(s.options.Replicas) {
			err = fmt.Errorf("%d of %d replicas have confirmed the renewal", n, s.options.Replicas)
		}
		return nil, err
	})
	return err
}

// Close removes the session and its entries.
func (s *session) Close(ctx context.Context) error {
	var err error
	for more := true; more && err == nil; {
		var a answer
		a, err = s.eval(ctx, "close", s.id)
		more = a.number(0) == 1
	}
	s.Drop()
	return err
}

// Drop leaves the session to its deadline.
func (s *session) Drop() {
	s.mu.Lock()
	s.over = true
	l := s.link
	s.mu.Unlock()
	s.end()
	l.cut()
	s.run.Wait()
}

// Reset breaks the connections of the session, so that the next request takes others.
func (s *session) Reset() {
	s.mu.Lock()
	old := s.link
	if s.over {
		s.mu.Unlock()
		return
	}
	s.link = s.newLink()
	s.mu.Unlock()
	old.cut()
}

// hold returns the link in use.
func (s *session) hold() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}
