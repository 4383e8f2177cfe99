package redis

import (
	"context"
	"math"
	"time"

	"github.com/farsync/farsync/driver"
)

// Create runs the script that appends an entry, which shows what is ahead.
func (s *session) Create(ctx context.Context, e driver.Entry, _ int) (driver.View, error) {
	var since int64
	if !e.Since.IsZero() {
		since = e.Since.UnixMicro()
	}
	return s.view(ctx, e, "create", s.id, e.ID, e.Queue, e.Kind.String(), e.Units, e.Value, since)
}

// Ahead runs the script that looks.
func (s *session) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	enough := 0
	if waiting {
		enough = 1
	}
	return s.view(ctx, e, "ahead", s.id, e.ID, e.Queue, e.Kind.String(), e.Units, enough)
}

// view runs a script that shows what is ahead of e, and keeps in mind what the session was noted for.
func (s *session) view(ctx context.Context, e driver.Entry, script string, args ...any) (driver.View, error) {
	s.mu.Lock()
	f := s.mail.depart()
	s.mu.Unlock()
	noted := map[string]int64{}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mail.land(f, noted)
	}()
	a, err := s.eval(ctx, script, args...)
	if err != nil {
		return driver.View{}, err
	}
	// quiet, ahead, turn, noted, value and version of the register, self, rows
	v := driver.View{Self: e, Entries: a.entries(7), Register: driver.Register{Value: a.text(4), Version: a.number(5)}}
	if e.ID != "" {
		v.Self = a.list(6).entry()
		v.Self.Value = nil
	}
	all := int(a.number(1))
	v.All = len(v.Entries) == all
	if turn := a.text(2); turn != "" && all > 0 {
		v.Entries = []driver.Entry{{Queue: e.Queue, ID: turnOf + e.ID, Kind: driver.Permit}}
		if turn == "waits" {
			v.Entries[0].Units = math.MaxInt64
		}
	}
	if a.number(3) == 1 {
		for _, other := range v.Entries {
			noted[nameOf(driver.Target{Entry: other})] = other.Version
		}
		if e.Kind == driver.Permit {
			noted[nameOf(driver.Target{Entry: e, What: driver.Registered})] = v.Register.Version
		}
	}
	if quiet := a.number(0); quiet > 0 && len(v.Entries) == 0 {
		until := time.Now().Add(time.Duration(quiet) * time.Microsecond)
		kind := e.Kind // of the same family, or the queue would be another's
		if kind == driver.Read {
			kind = driver.Write
		}
		v.All, v.Entries = false, []driver.Entry{{Queue: e.Queue, ID: silence, Kind: kind, Units: math.MaxInt64, Since: until}}
	}
	return v, nil
}

// listPage is how many entries one read of List shows.
const listPage = 256

// List reads the queue from its beginning, page by page: what leaves meanwhile may be shown.
func (s *session) List(ctx context.Context, queue string, limit int) (v driver.View, err error) {
	for after := int64(-1); ; {
		page := listPage
		if limit > 0 {
			page = min(page, limit-len(v.Entries))
		}
		a, err := s.eval(ctx, "list", queue, after, page)
		if err != nil {
			return driver.View{}, err
		}
		list := a.entries(0)
		v.Entries = append(v.Entries, list...)
		if v.All = len(list) < page; v.All || limit > 0 && len(v.Entries) >= limit {
			return v, nil
		}
		after = list[len(list)-1].Revision
	}
}

// Find reads the hash of e.
func (s *session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	a, err := s.eval(ctx, "find", e.ID)
	return a.list(0).list(0).entry(), err
}

// Replace changes the hash of e, which keeps its revision and its ID.
func (s *session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	given := 0
	if value != nil {
		given = 1
	}
	a, err := s.eval(ctx, "replace", e.ID, e.Version, k.String(), given, value)
	return a.list(0).list(0).entry(), err
}

// Delete removes e. Its ID is no other entry's. It hands nothing over: the next entry's session looks for itself.
func (s *session) Delete(ctx context.Context, e driver.Entry, _ []driver.Entry) (driver.View, bool, error) {
	a, err := s.eval(ctx, "delete", e.ID)
	if err != nil {
		return driver.View{}, false, err
	}
	s.mu.Lock()
	delete(s.mail.noted, nameOf(driver.Target{Entry: driver.Entry{ID: turnOf + e.ID}}))
	s.mu.Unlock()
	s.promote(ctx, a.text(1))
	return driver.View{}, a.number(0) == 1, nil
}

// promote continues what a script has left to do: a script grants to no more than 128 permits at a time. If promote fails,
// the next script in that queue continues.
func (s *session) promote(ctx context.Context, queue string) {
	for more := queue != ""; more; {
		a, err := s.eval(ctx, "promote", queue)
		more = err == nil && a.number(0) == 1
	}
}

// Register reads the register of a queue.
func (s *session) Register(ctx context.Context, queue string) (driver.Register, error) {
	a, err := s.eval(ctx, "register", queue)
	return driver.Register{Value: a.text(0), Version: a.number(1)}, err
}

// SetRegister writes it. A register is never removed, so its versions never go back.
func (s *session) SetRegister(ctx context.Context, queue, value string, version int64, head driver.Entry) (int64, error) {
	a, err := s.eval(ctx, "set", queue, value, version, head.ID)
	s.promote(ctx, a.text(1))
	return a.number(0), err
}

// Owned reads the entries of the session, whatever their queue.
func (s *session) Owned(ctx context.Context, _ []string) ([]driver.Entry, error) {
	a, err := s.eval(ctx, "owned", s.id)
	return a.entries(0), err
}

// Survey reads whole queues, in the order of their paths.
func (s *session) Survey(ctx context.Context, prefix, after string, limit int) ([]driver.Entry, error) {
	from := "[" + prefix
	if after >= prefix && after != "" {
		from = "(" + after
	}
	a, err := s.eval(ctx, "survey", prefix, from, limit)
	return a.entries(0), err
}

// Tell writes the words into the hash of e, and publishes that to its session.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) error {
	_, err := s.eval(ctx, "tell", e.ID, words)
	return err
}

// Heard reads the words.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	a, err := s.eval(ctx, "heard", e.ID)
	return a.text(0), err
}
