package electiontest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/farsync/farsync/driver"
)

// A moment is when a tap calls: before or after a request of a driver.
type moment string

const (
	creating moment = "before the entry is created"
	created  moment = "after the entry was created"
	watching moment = "before the wait"
	granted  moment = "after an answer has shown that nothing is ahead"
)

// tap returns a wrap for Cluster.OpenOver. It calls f at the first such moment, by the goroutine that makes the request.
func tap(at moment, f func()) func(driver.Service) driver.Service {
	return func(service driver.Service) driver.Service {
		return &tapped{Service: service, at: at, call: f}
	}
}

type tapped struct {
	driver.Service

	at     moment
	call   func()
	called atomic.Bool
}

// Open implements driver.Service.
func (s *tapped) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	opened, err := s.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &tappedSession{opened, s}, nil
}

func (s *tapped) reached(at moment) {
	if s.at == at && !s.called.Swap(true) { // call may make requests, too
		s.call()
	}
}

// looked is for an answer that shows what is ahead of an entry.
func (s *tapped) looked(v driver.View) {
	if v.Self.ID != "" && len(v.Entries) == 0 {
		s.reached(granted)
	}
}

type tappedSession struct {
	driver.Session

	service *tapped
}

// Create implements driver.Session.
func (s *tappedSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	s.service.reached(creating)
	v, err := s.Session.Create(ctx, e, attempt)
	s.service.reached(created)
	return v, err
}

// Ahead implements driver.Session.
func (s *tappedSession) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, e, waiting)
	if err == nil {
		s.service.looked(v)
	}
	return v, err
}

// Watch implements driver.Session.
func (s *tappedSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	s.service.reached(watching)
	proof, err := s.Session.Watch(ctx, e, on, stands)
	if proof != nil && proof.All {
		s.service.looked(*proof)
	}
	return proof, err
}
