package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/farsync/farsync/recipe"
)

// reopenWithin is the most that a client of Mem waits after the loss of a session before it opens the next.
const reopenWithin = 50 * time.Millisecond

var errExpired = errors.New("the service ended the session")

// A memSession is a session and the service's name for it.
type memSession struct {
	*recipe.Session
	id int64
}

// live waits for a session that is alive.
func (s *MemStore) live(ctx context.Context) (*memSession, error) {
	for {
		s.mu.Lock()
		held, news := s.session, s.news
		s.mu.Unlock()
		if ctx.Err() != nil {
			return nil, errors.New("no session")
		}
		if held != nil && held.Err() == nil {
			return held, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
}

func (s *MemStore) current() *memSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

// keep renews the session, and replaces it when it is lost, until the client is closed.
func (s *MemStore) keep(held *memSession) {
	for {
		if held != nil {
			s.renew(held)
			if s.life.Err() == nil {
				s.states.Announce(recipe.Lost)
			}
		}
		if sleep(s.life, rand.N(reopenWithin)) != nil {
			return
		}
		held = s.open()
	}
}

// open opens a session and makes it the present one. Nil: no answer came. If the request arrived after all, a session
// without entries is left to run out.
func (s *MemStore) open() *memSession {
	ctx, cancel := context.WithTimeout(s.life, s.ttl/3)
	defer cancel()
	id := s.mem.name()
	sent := time.Now()
	if s.link.call(ctx, OpenSession, "", func() { s.mem.openSession(id, s.ttl) }) != nil {
		return nil
	}
	held := &memSession{recipe.NewSession(s.ttl, s.deadline(sent)), id}
	s.mu.Lock()
	s.session = held
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	s.states.Announce(recipe.Connected)
	return held
}

// renew keeps one session alive, and returns when it is over or the client is closed.
func (s *MemStore) renew(held *memSession) {
	ctx, cancel := held.Bind(s.life)
	defer cancel()
	pause := s.ttl / 3
	for sleep(ctx, pause) == nil {
		bound, cancel := context.WithTimeout(ctx, s.ttl/3)
		sent := time.Now()
		var refused error
		err := s.link.call(bound, RenewSession, "", func() { refused = s.mem.renewSession(held.id) })
		cancel()
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.states.Announce(recipe.Suspended)
			}
			pause = retryAfter
		case refused != nil:
			held.End(errExpired)
		default:
			held.Extend(s.deadline(sent))
			s.states.Announce(recipe.Connected)
			pause = s.ttl / 3
		}
	}
}

// deadline is until when a session counts as alive after a renewal that was sent at the given time.
func (s *MemStore) deadline(sent time.Time) time.Time {
	return sent.Add(s.ttl - recipe.Margin(s.ttl))
}
