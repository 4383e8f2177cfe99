package farsynctest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Call is one request of a driver that has returned.
type Call struct {
	Kind OpKind
	// Client is the name given to Wrap.
	Client string
	Queue  string
	// Entry is the final ID of the entry that the request was about, or that Create made.
	Entry string
	// On are the IDs of the entries that were ahead (Create, Ahead), watched (Watch), or held (Renew).
	On  []string
	Err error
}

// A Record writes down the requests of the drivers that it has wrapped, all in one list, in the order in which they
// returned. The zero value is ready. All methods may be called by any goroutine.
type Record struct {
	mu    sync.Mutex
	calls []Call
}

// Wrap returns a driver with its requests written down under the name of client.
func (r *Record) Wrap(service driver.Service, client string) driver.Service {
	return &recorded{service, r, client}
}

// Calls returns what was written down.
func (r *Record) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Count returns how many requests of the given kinds have returned; of all kinds if none is given.
func (r *Record) Count(kinds ...OpKind) int {
	n := 0
	for _, c := range r.Calls() {
		if len(kinds) == 0 || slices.Contains(kinds, c.Kind) {
			n++
		}
	}
	return n
}

// Waits returns, for each entry that ever waited, the IDs of all entries that it watched.
func (r *Record) Waits() map[string][]string {
	waits := map[string][]string{}
	for _, c := range r.Calls() {
		if c.Kind != Watch || c.Entry == "" {
			continue
		}
		for _, on := range c.On {
			if on != "" && !slices.Contains(waits[c.Entry], on) {
				waits[c.Entry] = append(waits[c.Entry], on)
			}
		}
	}
	return waits
}

// Reset forgets all requests.
func (r *Record) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

type recorded struct {
	driver.Service

	record *Record
	client string
}

// String is what errors of Open call the service, if it says so.
func (s *recorded) String() string { return nameOf(s.Service) }

// Open implements driver.Service.
func (s *recorded) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	opened, err := s.Service.Open(ctx, ttl)
	s.add(Op{Kind: OpenSession}, err, nil)
	if err != nil {
		return nil, err
	}
	return &recordedSession{opened, s}, nil
}

// End implements driver.Service.
func (s *recorded) End(ctx context.Context, session string) error {
	err := s.Service.End(ctx, session)
	s.add(Op{Kind: EndSession}, err, nil)
	return err
}

func (s *recorded) add(op Op, err error, on []driver.Entry) {
	c := Call{Kind: op.Kind, Client: s.client, Queue: op.Queue, Entry: op.Entry, Err: err}
	for _, e := range on {
		c.On = append(c.On, e.ID)
	}
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	s.record.calls = append(s.record.calls, c)
}

type recordedSession struct {
	driver.Session // NewID, Granted, Name, Over, Reset and Drop make no request

	service *recorded
}

// Renew implements driver.Session.
func (s *recordedSession) Renew(ctx context.Context, prove []driver.Entry) error {
	err := s.Session.Renew(ctx, prove)
	s.service.add(Op{Kind: Renew}, err, prove)
	return err
}

// Close implements driver.Session.
func (s *recordedSession) Close(ctx context.Context) error {
	err := s.Session.Close(ctx)
	s.service.add(Op{Kind: CloseSession}, err, nil)
	return err
}

// Create implements driver.Session.
func (s *recordedSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	if err == nil {
		e.ID = v.Self.ID
	}
	s.service.add(about(Create, e), err, v.Entries)
	return v, err
}

// Ahead implements driver.Session.
func (s *recordedSession) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	v, err := s.Session.Ahead(ctx, e, waiting)
	s.service.add(about(Ahead, e), err, v.Entries)
	return v, err
}

// List implements driver.Session.
func (s *recordedSession) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	v, err := s.Session.List(ctx, queue, limit)
	s.service.add(Op{Kind: List, Queue: queue}, err, nil)
	return v, err
}

// Find implements driver.Session.
func (s *recordedSession) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	found, err := s.Session.Find(ctx, e)
	s.service.add(about(Find, e), err, nil)
	return found, err
}

// Replace implements driver.Session.
func (s *recordedSession) Replace(
	ctx context.Context, e driver.Entry, k driver.Kind, value []byte,
) (driver.Entry, error) {
	to, err := s.Session.Replace(ctx, e, k, value)
	s.service.add(about(Replace, e), err, nil)
	return to, err
}

// Delete implements driver.Session.
func (s *recordedSession) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	v, found, err := s.Session.Delete(ctx, e)
	s.service.add(about(Delete, e), err, nil)
	return v, found, err
}

// Watch implements driver.Session.
func (s *recordedSession) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	proof, err := s.Session.Watch(ctx, e, on, stands)
	op := about(Watch, e)
	var watched []driver.Entry
	for _, t := range on {
		op.Queue = t.Entry.Queue
		watched = append(watched, t.Entry)
	}
	s.service.add(op, err, watched)
	return proof, err
}

// Register implements driver.Session.
func (s *recordedSession) Register(ctx context.Context, queue string) (driver.Register, error) {
	r, err := s.Session.Register(ctx, queue)
	s.service.add(Op{Kind: Register, Queue: queue}, err, nil)
	return r, err
}

// SetRegister implements driver.Session.
func (s *recordedSession) SetRegister(
	ctx context.Context, queue, value string, version int64, head driver.Entry,
) (int64, error) {
	written, err := s.Session.SetRegister(ctx, queue, value, version, head)
	s.service.add(Op{Kind: SetRegister, Queue: queue, Entry: head.ID}, err, nil)
	return written, err
}

// Owned implements driver.Session.
func (s *recordedSession) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	list, err := s.Session.Owned(ctx, queues)
	s.service.add(Op{Kind: Owned}, err, nil)
	return list, err
}

// Tell implements driver.Session.
func (s *recordedSession) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	lasts, err = s.Session.Tell(ctx, e, words)
	s.service.add(about(Tell, e), err, nil)
	return lasts, err
}

// Heard implements driver.Session.
func (s *recordedSession) Heard(ctx context.Context, e driver.Entry) (string, error) {
	words, err := s.Session.Heard(ctx, e)
	s.service.add(about(Heard, e), err, nil)
	return words, err
}

// Outlast implements driver.Session.
func (s *recordedSession) Outlast(ctx context.Context) error {
	err := s.Session.Outlast(ctx)
	s.service.add(Op{Kind: Outlast}, err, nil)
	return err
}

// Touch implements driver.Session.
func (s *recordedSession) Touch(ctx context.Context, v driver.View) (driver.View, error) {
	next, err := s.Session.Touch(ctx, v)
	s.service.add(Op{Kind: Touch, Queue: v.Self.Queue}, err, next.Entries)
	return next, err
}

// Survey implements driver.Session.
func (s *recordedSession) Survey(ctx context.Context, prefix, after string, limit int) (driver.View, error) {
	v, err := s.Session.Survey(ctx, prefix, after, limit)
	s.service.add(Op{Kind: Survey}, err, nil)
	return v, err
}
