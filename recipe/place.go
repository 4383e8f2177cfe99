package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// A place is an entry of this Store in a queue, and the session it lives in. Once granted it is never changed: what is
// replaced in its place is another place.
type place struct {
	entry driver.Entry
	in    *session
	// made is the entry as it was asked for. If doubtful, an attempt to create it may be carried out late, after the entry
	// was removed.
	made     driver.Entry
	note     uint64 // the session's note of it
	doubtful bool
	// native is true once the queue was found to be of the entry's family although others are ahead. It is set before the
	// place is granted, by the goroutine that waits.
	native bool
	began  time.Time // when the call began to wait for it
	ahead  int       // how many entries were ahead of it when it joined, as far as that was seen
	before int       // how many entries its call had lost before it had this one
	left   int64     // units that were free beside it when it was granted, as far as that was seen
}

// join creates an entry at the tail of its queue, and returns its place with what it has to wait for. On error nothing
// stays that outlives the session: the removal of what may have been created has begun. If the session ends on the way,
// join continues in the next. ErrGone and errNotAlone mean that the caller may join again.
func (s *Store) join(ctx context.Context, r *Request) (p *place, on []driver.Target, err error) {
	err = s.inSession(ctx, func(in *session) (v verdict) {
		p, on, v = s.joinIn(ctx, in, r)
		return v
	})
	return p, on, err
}

func (s *Store) joinIn(ctx context.Context, in *session, r *Request) (*place, []driver.Target, verdict) {
	p := s.newPlace(ctx, in, r)
	v, got := s.create(ctx, p)
	if got.fate != done {
		return nil, nil, got
	}
	var on []driver.Target
	if v.All || len(v.Entries) > 0 {
		on, got = s.decide(ctx, p, r, driver.Register{}, &v)
	} else {
		on, got = s.look(ctx, p, r, driver.Register{})
	}
	switch {
	case got.fate == done:
		if p.ahead = len(v.Entries); !v.All && len(on) > 0 {
			p.ahead = on[0].Entry.Ahead + 1
		}
		return p, on, got
	case errors.Is(got.err, driver.ErrKind), errors.Is(got.err, ErrSize):
		// Those whose queue it is may wait behind the entry already: see its removal through while ctx lives.
		_ = s.remove(ctx, p)
	default:
		s.removeInBackground(p)
	}
	return nil, nil, got
}

// create makes the entry of p, and returns what Create shows. If it is not known whether the entry was made, its removal
// has begun.
func (s *Store) create(ctx context.Context, p *place) (v driver.View, got verdict) {
	got = s.try(ctx, p.in, func(ctx context.Context, attempt int) (err error) {
		v, err = p.in.Session.Create(ctx, p.made, attempt)
		return err
	})
	p.doubtful = got.again
	switch got.fate {
	case done:
		p.entry.ID, p.entry.Revision, p.entry.Version = v.Self.ID, v.Self.Revision, v.Self.Version
	case not:
		p.in.forget(p)
	case unknown:
		s.removeInBackground(p)
	}
	return v, got
}

// newPlace returns a place for an entry that is to be created. It is not inlined: a waiter does not
// need the stack that this needs.
//
//go:noinline
func (s *Store) newPlace(ctx context.Context, in *session, r *Request) *place {
	// It is noted before any attempt is made: what is under way is not taken for an entry that stands again.
	id, note := in.newID(r.Queue, r.Kind, r.Units)
	e := driver.Entry{
		Queue: r.Queue, ID: id, Kind: r.Kind, Units: r.Units, Size: r.Size,
		Value: r.Value, Since: time.Now(),
	}
	var under []string
	if r.Kind != driver.Candidate {
		under = s.underOf(ctx)
	}
	if e.Value == nil {
		e.Value = words{holder: s.options.Holder, under: under, note: r.note}.value()
	}
	return &place{entry: e, in: in, made: e, note: note}
}

// remove deletes the entry of p. Nil means that it was removed, or that its session ended first and it goes with that.
// ErrGone means that it had gone before, and that no attempt of this call can have removed it. On any other error removal
// continues in the background.
func (s *Store) remove(ctx context.Context, p *place) error {
	if over := p.in.gone(); over != nil {
		return over
	}
	found, v := s.deleteEntry(ctx, p)
	switch {
	case v.fate == done && (found || v.again):
		return nil
	case s.life.Err() != nil: // and what was not found has gone with the session
		return context.Cause(s.life)
	case v.fate == done:
		return driver.ErrGone
	case p.in.err() != nil:
		return nil //nolint:nilerr // the entry goes with its session
	default:
		s.removeInBackground(p)
		return s.failure(ctx, v)
	}
}

// deleteEntry removes p's entry. Once that is confirmed, a late attempt that creates it again is looked for.
func (s *Store) deleteEntry(ctx context.Context, p *place) (found bool, v verdict) {
	var left driver.View
	v = s.try(ctx, p.in, func(ctx context.Context, _ int) (err error) {
		sent := time.Now()
		if left, found, err = p.in.Session.Delete(ctx, p.entry); err != nil {
			s.removalFailed(ctx, p, sent, err)
		}
		return err
	})
	if v.fate == done && p.doubtful {
		s.doubt(p)
	}
	if v.fate == done {
		p.in.forget(p)
		p.in.removed(p, &s.unstuck)
	}
	if left.Turn {
		s.touch(p.in, left)
	}
	return found, v
}

// touch has the head of a queue told, in the background, that it is its turn. Left is the View of a Delete. It is repeated as long as the head
// that was shown is gone when it is to be told. A head that is never told, for the service refuses it or the session ends, looks by itself in
// the end. If a request is under way when the Store is closed, the driver finishes it, when it has ended the session.
func (s *Store) touch(in *session, left driver.View) {
	s.background(func() {
		for left.Turn {
			v := s.try(in.life, in, func(ctx context.Context, _ int) error {
				next, err := in.Session.Touch(ctx, left)
				if err == nil {
					left = next
				}
				return err
			})
			if v.fate != done {
				return
			}
		}
	})
}

// removeInBackground removes the entry of p until that is confirmed, or its session is over: the entry goes with it. A
// refusal does not end it, for a permission may be given back. It does not wait.
func (s *Store) removeInBackground(p *place) {
	s.background(func() {
		for delay := retryFirst; ; delay = min(2*delay, p.in.ttl/3) {
			_, v := s.deleteEntry(p.in.life, p)
			if v.fate == done || p.in.err() != nil {
				return
			}
			if pause.For(p.in.life, delay) != nil {
				return
			}
		}
	})
}

// doubt looks, from now on until the session is over, for an entry that a late attempt to create p's may still make. A
// request that was given up may wait in the network or in a server's queue for any time; an entry made by it would block
// its queue for as long as the session lives.
func (s *Store) doubt(p *place) {
	if p.in.suspect(p.made) {
		s.background(func() { s.sweep(p.in) })
	}
}

// sweep compares what the session owns with its suspects, at once and then ever more slowly, and removes what came late.
// There is one sweep a session, and only if it has suspects. It looks at no more than some 20 queues a second.
func (s *Store) sweep(in *session) {
	for delay := retryFirst; in.life.Err() == nil; {
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-in.doubt: // another, which may come any moment
			t.Stop()
			delay = retryFirst
			_ = pause.For(in.life, delay)
		case <-in.life.Done():
			t.Stop()
			return
		}
		queues := in.suspected()
		delay = min(2*delay, in.ttl/3+time.Duration(len(queues))*50*time.Millisecond)
		s.removeOwned(in, queues, in.isSuspect, func(of ...any) { s.log.Info("late entry removed", of...) })
	}
}

// removeOwned removes those entries that the session owns in some queues, or in all, and that are of no place. It reports whether none is
// left.
func (s *Store) removeOwned(in *session, queues []string, stray func(driver.Entry) bool, removed func(of ...any)) (all bool) {
	var owned []driver.Entry
	v := s.try(in.life, in, func(ctx context.Context, _ int) (err error) {
		owned, err = in.Owned(ctx, queues)
		return err
	})
	if v.fate != done {
		s.log.Debug("own entries not looked for", "cause", v.err)
		return false
	}
	all = true
	for _, e := range owned {
		if !stray(e) {
			continue
		}
		found, v := s.deleteEntry(in.life, &place{entry: e, in: in, made: e})
		if all = all && v.fate == done; v.fate == done && (found || v.again) {
			removed("path", e.Queue, "kind", e.Kind.String())
		}
	}
	return all
}

// replace gives the entry of p another kind, another value, or both, and returns the place as it is then. ErrGone means
// that the entry is gone, ErrUncertain that the service did not say whether the change was made, or will be.
//
// Every attempt replaces one version of the entry, so an attempt that is carried out late, after another, changes
// nothing. After an attempt of unknown outcome, and if read is true, the entry is read first. That it is found as it is to
// be proves something only if it has changed since the last attempt: otherwise an older attempt that is late may
// still replace it.
func (s *Store) replace(ctx context.Context, p *place, k driver.Kind, value []byte, read bool) (*place, error) {
	if err := checkValue(value); err != nil {
		return nil, err
	}
	if over := p.in.gone(); over != nil {
		return nil, over
	}
	from, to := p.entry, driver.Entry{}
	tried := false // from is the version that an attempt was to replace
	v := s.try(ctx, p.in, func(ctx context.Context, attempt int) error {
		if attempt > 0 || read {
			now, err := p.in.Session.Find(ctx, from)
			if err != nil {
				return err
			}
			changed := tried && now.Version != from.Version || now.Kind != from.Kind
			if changed && now.Kind == k && (value == nil || bytes.Equal(now.Value, value)) {
				to = now
				return nil
			}
			from = now
		}
		tried = true
		now, err := p.in.Session.Replace(ctx, from, k, value)
		if errors.Is(err, driver.ErrConflict) {
			read = true
			return fmt.Errorf("%w: %w", errAgain, err)
		}
		to = now
		return err
	})
	switch over := p.in.gone(); {
	case v.fate == done:
		changed := *p
		changed.entry.ID, changed.entry.Version, changed.entry.Kind = to.ID, to.Version, k
		if value != nil {
			changed.entry.Value = value
		}
		return &changed, nil
	case errors.Is(v.err, driver.ErrGone):
		return nil, driver.ErrGone
	case over != nil:
		return nil, over
	case v.fate == not:
		return nil, s.failure(ctx, v)
	default:
		return nil, fmt.Errorf("%w: %w", ErrUncertain, s.failure(ctx, v))
	}
}
