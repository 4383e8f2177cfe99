package farsynctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// Inject returns a driver that asks i before each request what becomes of it. It has no policy of its own, so what it
// shows to a Store is what a service and its network can do. Granted moves only with requests that were answered.
func Inject(service driver.Service, i Injector) driver.Service {
	return &injected{service: service, injector: i}
}

// String is what errors of Open call the service, if it says so.
func (s *injected) String() string { return nameOf(s.service) }

// nameOf returns what a service calls itself, or nothing.
func nameOf(service driver.Service) string {
	if named, ok := service.(fmt.Stringer); ok {
		return named.String()
	}
	return ""
}

// ErrInjected is what every error of an Inject wraps.
var ErrInjected = errors.New("injected")

// A failure is the error of a request that was not left alone.
type failure struct {
	op      Op
	outcome driver.Outcome
	err     error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.op.Kind, f.err) }

func (f *failure) Unwrap() []error { return []error{ErrInjected, f.err} }

var errLost = errors.New("the connection broke")

type injected struct {
	service  driver.Service
	injector Injector

	mu   sync.Mutex
	late []*lateRequest
}

// A lateRequest will be carried out after some more requests. Invariant: left > 0 while it is in the list.
type lateRequest struct {
	left    int
	session *injectedSession // nil for the opening of one, and for its end by a name
	run     func(ctx context.Context)
}

// Open implements driver.Service. A session whose answer is lost is dropped.
func (s *injected) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	opened, err := request(ctx, s, nil, Op{Kind: OpenSession}, driver.Session.Drop,
		func(ctx context.Context) (driver.Session, error) { return s.service.Open(ctx, ttl) })
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	session := &injectedSession{service: s, session: opened, life: life, end: end}
	session.learn()
	return session, nil
}

// End implements driver.Service.
func (s *injected) End(ctx context.Context, session string) error {
	_, err := request(ctx, s, nil, Op{Kind: EndSession}, nil, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.service.End(ctx, session)
	})
	return err
}

// Outcome implements driver.Service.
func (s *injected) Outcome(err error) driver.Outcome {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.outcome
	}
	return s.service.Outcome(err)
}

// Close implements driver.Service. Requests that are late are never carried out.
func (s *injected) Close() error {
	s.forget(nil)
	return s.service.Close()
}

// forget drops the late requests of a session.
func (s *injected) forget(session *injectedSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = slices.DeleteFunc(s.late, func(l *lateRequest) bool { return l.session == session })
}

// due counts a request, and returns the late requests that are due after it.
func (s *injected) due() []*lateRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept, due []*lateRequest
	for _, l := range s.late {
		if l.left--; l.left > 0 {
			kept = append(kept, l)
		} else {
			due = append(due, l)
		}
	}
	s.late = kept
	return due
}

// request makes one request as the injector wants it. Lost is called, if not nil, with an answer that the caller will not
// see.
func request[T any](
	ctx context.Context, s *injected, session *injectedSession, op Op, lost func(T), call func(context.Context) (T, error),
) (T, error) {
	fault := s.injector.Fault(ctx, op)
	due := s.due()
	if op.Kind == Watch {
		runLate(ctx, due) // a Watch may last
	} else {
		defer runLate(ctx, due)
	}
	var none T
	fail := func(outcome driver.Outcome, err error) (T, error) {
		return none, &failure{op: op, outcome: outcome, err: err}
	}
	carryOut := func(ctx context.Context) {
		if answer, err := call(ctx); err == nil && lost != nil {
			lost(answer)
		}
	}
	switch fault.fate {
	case requestLost:
		return fail(driver.Unknown, errLost)
	case replyLost:
		carryOut(ctx)
		return fail(driver.Unknown, errLost)
	case late:
		if fault.after <= 0 {
			carryOut(ctx)
		} else if op.Kind != Watch && op.Kind != CloseSession {
			s.postpone(&lateRequest{left: fault.after, session: session, run: carryOut})
		}
		return fail(driver.Unknown, errLost)
	case failed:
		return fail(fault.outcome, fault.err)
	case silentAfter:
		carryOut(ctx)
		fallthrough
	case silent:
		<-ctx.Done()
		return fail(driver.Unknown, context.Cause(ctx))
	}
	if fault.pause > 0 {
		if err := sleep(ctx, fault.pause); err != nil {
			return fail(driver.NotDone, err)
		}
	}
	answer, err := call(ctx)
	if session != nil {
		session.learn()
	}
	return answer, err
}

func (s *injected) postpone(l *lateRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, l)
}

// runLate carries out late requests, each in a goroutine that ends with its session, and waits for them while ctx lives.
func runLate(ctx context.Context, due []*lateRequest) {
	for _, l := range due {
		if l.session == nil {
			l.run(ctx)
			continue
		}
		done := make(chan struct{})
		if !l.session.start(func(ctx context.Context) {
			defer close(done)
			l.run(ctx)
		}) {
			continue
		}
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}
