package farsynctest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A memService is the driver of Mem, without faults.
type memService struct {
	mem   *Mem
	link  *link
	hears bool // of Lose
	shut  atomic.Bool
}

// Open implements driver.Service.
func (s *memService) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if s.shut.Load() {
		return nil, errShut
	}
	id, sent, history := s.mem.name(), time.Now(), int64(0)
	lost, lose := context.WithCancel(context.Background()) //nolint:gosec // nothing is under it but requests, which end by themselves
	if err := s.link.call(ctx, OpenSession, func() { history = s.mem.openSession(id, s.link.client, ttl, lose) }); err != nil {
		return nil, err
	}
	session := &memSession{Optional: driver.Unsupported, mem: s.mem, link: s.link, id: id, ttl: ttl, from: sent, history: history}
	if s.hears {
		session.lost = lost
	}
	return session, nil
}

// End implements driver.Service. The number of a session is given to no other, so what arrives later finds none.
func (s *memService) End(ctx context.Context, session string) error {
	if s.shut.Load() {
		return errShut
	}
	id, err := strconv.ParseInt(session, 10, 64)
	if err != nil {
		return err
	}
	return s.link.call(ctx, EndSession, func() { s.mem.closeSession(id) })
}

// Outcome implements driver.Service.
func (s *memService) Outcome(err error) driver.Outcome {
	switch {
	case errors.Is(err, errShut):
		return driver.Closed
	case errors.Is(err, errNoSession), errors.Is(err, errEnded):
		return driver.Expired
	case errors.Is(err, errNotSent):
		return driver.NotDone
	case errors.Is(err, errKind), errors.Is(err, errTwice), errors.Is(err, errStray):
		return driver.Refused
	default:
		return driver.Unknown
	}
}

// Close implements driver.Service.
func (s *memService) Close() error {
	s.shut.Store(true)
	return nil
}

// A memSession is a session of Mem as its client sees it. It has nothing of its own to run and nothing to reset.
type memSession struct {
	driver.Optional

	mem  *Mem
	link *link
	id   int64
	ttl  time.Duration
	over atomic.Bool     // closed or dropped
	lost context.Context // ends with Lose; nil for a client that does not hear of it

	mu      sync.Mutex
	from    time.Time // when the last acknowledged renewal was sent
	history int64     // what it has shown
}

// NewID implements driver.Session.
func (s *memSession) NewID(queue string, k driver.Kind, _ int64) string { return s.mem.newID(queue, k) }

// Granted implements driver.Session.
func (s *memSession) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Renew implements driver.Session. The service needs no proof: it answers only for sessions that it keeps.
func (s *memSession) Renew(ctx context.Context, _ []driver.Entry) error {
	if s.lost != nil {
		// Lose answers a renewal that is under way, too. Otherwise a Store that is cut off would wait for that answer first.
		bound, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.lost, cancel)()
		ctx = bound
	}
	sent := time.Now()
	history, err := ask(ctx, s, Renew, func() (int64, error) { return s.mem.renewSession(s.id) })
	switch {
	case err != nil && s.lost != nil && s.lost.Err() != nil:
		return errNoSession
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.After(s.from) {
		s.from, s.history = sent, history
	}
	return nil
}

// Name implements driver.Session. List shows the same.
func (s *memSession) Name() string { return strconv.FormatInt(s.id, 10) }

// Over implements driver.Session. It tells of Mem.Lose alone: a client learns of any other end when it asks.
func (s *memSession) Over() <-chan struct{} {
	if s.lost == nil {
		return nil
	}
	return s.lost.Done()
}

// History implements driver.Session.
func (s *memSession) History() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint("history ", s.history)
}

// Silence implements driver.Session. It shows the service as it is, although a client that is cut off would not
// have heard of it.
func (s *memSession) Silence() (until time.Time, why string) {
	return s.mem.silence(), "the service was restarted"
}

// Close implements driver.Session.
func (s *memSession) Close(ctx context.Context) error {
	s.over.Store(true)
	return s.link.call(ctx, CloseSession, func() { s.mem.closeSession(s.id) })
}

// Drop implements driver.Session.
func (s *memSession) Drop() { s.over.Store(true) }

// Create implements driver.Session.
func (s *memSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	return ask(ctx, s, Create, func() (driver.View, error) { return s.mem.create(s.id, e, attempt) })
}

// Ahead implements driver.Session.
func (s *memSession) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	return ask(ctx, s, Ahead, func() (driver.View, error) { return s.mem.ahead(e, waiting) })
}

// List implements driver.Session.
func (s *memSession) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	return ask(ctx, s, List, func() (driver.View, error) { return s.mem.list(queue, limit), nil })
}

// Find implements driver.Session.
func (s *memSession) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	return ask(ctx, s, Find, func() (driver.Entry, error) { return s.mem.entry(e) })
}

// Replace implements driver.Session.
func (s *memSession) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	return ask(ctx, s, Replace, func() (driver.Entry, error) { return s.mem.replace(e, k, value) })
}

// Delete implements driver.Session. It shows nothing of what is behind.
func (s *memSession) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	found, err := ask(ctx, s, Delete, func() (bool, error) { return s.mem.Delete(e.ID), nil })
	return driver.View{}, found, err
}

// Watch implements driver.Session. The proof is of the moment after the event.
func (s *memSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	if s.over.Load() {
		return nil, errEnded
	}
	var w *watch
	var refused error
	err := s.link.call(ctx, Watch, func() { w, refused = s.mem.watch(on) })
	if w != nil {
		defer s.mem.unwatch(w)
	}
	if err != nil || refused != nil {
		return nil, errors.Join(err, refused)
	}
	stands()
	select {
	case <-w.fired:
		if len(w.on) == 0 {
			return nil, nil // one had moved before: the answer is on the way already
		}
		proof := s.mem.proof(e)
		if err := s.link.travel(ctx); err != nil {
			return nil, err
		}
		return proof, nil
	case <-ctx.Done():
		return nil, errors.Join(errUnanswered, context.Cause(ctx))
	}
}

// Register implements driver.Session.
func (s *memSession) Register(ctx context.Context, queue string) (driver.Register, error) {
	return ask(ctx, s, Register, func() (driver.Register, error) { return s.mem.register(queue), nil })
}

// SetRegister implements driver.Session.
func (s *memSession) SetRegister(
	ctx context.Context, queue, value string, version int64, head driver.Entry,
) (int64, error) {
	return ask(ctx, s, SetRegister, func() (int64, error) { return s.mem.write(queue, value, version, head) })
}

// Owned implements driver.Session.
func (s *memSession) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	return ask(ctx, s, Owned, func() ([]driver.Entry, error) { return s.mem.owned(s.id, queues) })
}

// Tell implements driver.Session. The words stay when the entry is gone.
func (s *memSession) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	_, err = ask(ctx, s, Tell, func() (struct{}, error) { return struct{}{}, s.mem.tell(s.id, e, words) })
	return true, err
}

// Heard implements driver.Session.
func (s *memSession) Heard(ctx context.Context, e driver.Entry) (string, error) {
	return ask(ctx, s, Heard, func() (string, error) { return s.mem.heard(e) })
}

// Survey implements driver.Session.
func (s *memSession) Survey(ctx context.Context, prefix, after string, limit int) (driver.View, error) {
	return ask(ctx, s, Survey, func() (driver.View, error) { return s.mem.survey(prefix, after, limit), nil })
}

// ask makes one request, which carryOut does at the service.
func ask[T any](ctx context.Context, s *memSession, kind OpKind, carryOut func() (T, error)) (T, error) {
	var answer T
	var refused error
	if s.over.Load() {
		return answer, errEnded
	}
	if err := s.link.call(ctx, kind, func() { answer, refused = carryOut() }); err != nil {
		var none T
		return none, err
	}
	return answer, refused
}
