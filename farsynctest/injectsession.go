package farsynctest

import (
	"context"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

type injectedSession struct {
	service *injected
	session driver.Session

	life    context.Context // the session's own, not a caller's: for late requests
	end     context.CancelFunc
	running sync.WaitGroup // late requests

	mu   sync.Mutex
	ttl  time.Duration // as granted by the last answer that was given
	from time.Time
}

// learn takes over what the session knows of its renewals, after an answer.
func (s *injectedSession) learn() {
	ttl, from := s.session.Granted()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !from.Before(s.from) {
		s.ttl, s.from = ttl, from
	}
}

// stop ends and joins the late requests, and drops late requests that are not under way.
func (s *injectedSession) stop() {
	s.mu.Lock()
	s.end() // under mu: no late request begins after that
	s.mu.Unlock()
	s.service.forget(s)
	s.running.Wait()
}

// start runs f in a goroutine that the session joins, and reports whether it does. It does not once the session is over.
func (s *injectedSession) start(f func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil {
		return false
	}
	s.running.Go(func() { f(s.life) })
	return true
}

// NewID implements driver.Session.
func (s *injectedSession) NewID(queue string, k driver.Kind, units int64) string {
	return s.session.NewID(queue, k, units)
}

// Granted implements driver.Session.
func (s *injectedSession) Granted() (time.Duration, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ttl, s.from
}

// Name implements driver.Session.
func (s *injectedSession) Name() string { return s.session.Name() }

// Over implements driver.Session.
func (s *injectedSession) Over() <-chan struct{} { return s.session.Over() }

// History implements driver.Session.
func (s *injectedSession) History() string { return s.session.History() }

// Silence implements driver.Session.
func (s *injectedSession) Silence() (until time.Time, why string) { return s.session.Silence() }

// Reset implements driver.Session.
func (s *injectedSession) Reset() { s.session.Reset() }

// Drop implements driver.Session.
func (s *injectedSession) Drop() {
	s.stop()
	s.session.Drop()
}

// Close implements driver.Session. A session whose end is not carried out is dropped here.
func (s *injectedSession) Close(ctx context.Context) error {
	s.stop()
	carriedOut := false
	_, err := request(ctx, s.service, nil, Op{Kind: CloseSession}, nil, func(ctx context.Context) (struct{}, error) {
		carriedOut = true
		return struct{}{}, s.session.Close(ctx)
	})
	if !carriedOut {
		s.session.Drop()
	}
	return err
}

// Renew implements driver.Session.
func (s *injectedSession) Renew(ctx context.Context, prove []driver.Entry) error {
	return s.tell(ctx, Op{Kind: Renew}, func(ctx context.Context) error { return s.session.Renew(ctx, prove) })
}

// Create implements driver.Session.
func (s *injectedSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	op := about(Create, e)
	op.Attempt = attempt
	return inject(ctx, s, op, func(ctx context.Context) (driver.View, error) { return s.session.Create(ctx, e, attempt) })
}

// Ahead implements driver.Session.
func (s *injectedSession) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	return inject(ctx, s, about(Ahead, e), func(ctx context.Context) (driver.View, error) {
		return s.session.Ahead(ctx, e, waiting)
	})
}

// List implements driver.Session.
func (s *injectedSession) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	return inject(ctx, s, Op{Kind: List, Queue: queue}, func(ctx context.Context) (driver.View, error) {
		return s.session.List(ctx, queue, limit)
	})
}

// Find implements driver.Session.
func (s *injectedSession) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	return inject(ctx, s, about(Find, e), func(ctx context.Context) (driver.Entry, error) { return s.session.Find(ctx, e) })
}

// Replace implements driver.Session.
func (s *injectedSession) Replace(
	ctx context.Context, e driver.Entry, k driver.Kind, value []byte,
) (driver.Entry, error) {
	return inject(ctx, s, about(Replace, e), func(ctx context.Context) (driver.Entry, error) {
		return s.session.Replace(ctx, e, k, value)
	})
}

// Delete implements driver.Session.
func (s *injectedSession) Delete(ctx context.Context, e driver.Entry) (v driver.View, found bool, err error) {
	type answer struct {
		view  driver.View
		found bool
	}
	a, err := inject(ctx, s, about(Delete, e), func(ctx context.Context) (answer, error) {
		v, found, err := s.session.Delete(ctx, e)
		return answer{v, found}, err
	})
	return a.view, a.found, err
}

// Watch implements driver.Session.
func (s *injectedSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	op := about(Watch, e)
	if len(on) > 0 {
		op.Queue = on[0].Entry.Queue
	}
	return inject(ctx, s, op, func(ctx context.Context) (*driver.View, error) {
		return s.session.Watch(ctx, e, on, stands)
	})
}

// Register implements driver.Session.
func (s *injectedSession) Register(ctx context.Context, queue string) (driver.Register, error) {
	return inject(ctx, s, Op{Kind: Register, Queue: queue}, func(ctx context.Context) (driver.Register, error) {
		return s.session.Register(ctx, queue)
	})
}

// SetRegister implements driver.Session.
func (s *injectedSession) SetRegister(
	ctx context.Context, queue, value string, version int64, head driver.Entry,
) (int64, error) {
	op := Op{Kind: SetRegister, Queue: queue, Entry: head.ID}
	return inject(ctx, s, op, func(ctx context.Context) (int64, error) {
		return s.session.SetRegister(ctx, queue, value, version, head)
	})
}

// Owned implements driver.Session.
func (s *injectedSession) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	return inject(ctx, s, Op{Kind: Owned}, func(ctx context.Context) ([]driver.Entry, error) {
		return s.session.Owned(ctx, queues)
	})
}

// Tell implements driver.Session.
func (s *injectedSession) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	return inject(ctx, s, about(Tell, e), func(ctx context.Context) (bool, error) { return s.session.Tell(ctx, e, words) })
}

// Heard implements driver.Session.
func (s *injectedSession) Heard(ctx context.Context, e driver.Entry) (string, error) {
	return inject(ctx, s, about(Heard, e), func(ctx context.Context) (string, error) { return s.session.Heard(ctx, e) })
}

// Touch implements driver.Session.
func (s *injectedSession) Touch(ctx context.Context, v driver.View) (driver.View, error) {
	return inject(ctx, s, Op{Kind: Touch, Queue: v.Self.Queue}, func(ctx context.Context) (driver.View, error) {
		return s.session.Touch(ctx, v)
	})
}

// Outlast implements driver.Session.
func (s *injectedSession) Outlast(ctx context.Context) error {
	_, err := inject(ctx, s, Op{Kind: Outlast}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.session.Outlast(ctx)
	})
	return err
}

// Survey implements driver.Session.
func (s *injectedSession) Survey(ctx context.Context, prefix, after string, limit int) (driver.View, error) {
	return inject(ctx, s, Op{Kind: Survey}, func(ctx context.Context) (driver.View, error) {
		return s.session.Survey(ctx, prefix, after, limit)
	})
}

func about(kind OpKind, e driver.Entry) Op { return Op{Kind: kind, Queue: e.Queue, Entry: e.ID} }

func inject[T any](
	ctx context.Context, s *injectedSession, op Op, call func(context.Context) (T, error),
) (T, error) {
	return request(ctx, s.service, s, op, nil, call)
}

// tell is inject for a request whose answer is empty.
func (s *injectedSession) tell(ctx context.Context, op Op, call func(context.Context) error) error {
	_, err := inject(ctx, s, op, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}
