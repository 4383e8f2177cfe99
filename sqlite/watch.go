package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/farsync/farsync/driver"
)

// maxProof is how many entries a proof or the View of Create shows at most.
const maxProof = 128

// A waiter is a Watch that is under way.
type waiter struct {
	names  []string // what it waits for
	owners []string // the sessions whose entries those are, as it has seen them last. Guarded by session.mu
	woken  chan struct{}
}

// nameOf returns the name under which a target is told of.
func nameOf(t driver.Target) string {
	switch t.What {
	case driver.Registered:
		return "=" + t.Entry.Queue
	case driver.Joined:
		return "+" + t.Entry.Queue
	default:
		return t.Entry.ID
	}
}

// Watch waits for a datagram, or for poll, and looks after each. It listens before it looks the first time, so a change
// between the look and the wait has left its mark in woken.
//
// Only if the session would not be told in any case it writes what it waits for into farsync_watches, and looks once more
// in that transaction: a change is either seen there, or comes after it and finds the row. The row is for one time.
func (s *session) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	w := s.wait(on)
	defer s.leave(w)
	for {
		seen, err := query(ctx, s, func(t *tx) (sight, error) { return s.look(t, e, on) })
		if err == nil && seen.untold {
			seen, err = update(ctx, s, func(t *tx) (sight, error) {
				if _, err := t.exec("watch", array(w.names), s.id); err != nil {
					return sight{}, err
				}
				return s.look(t, e, on)
			})
		}
		if err != nil || seen.moved {
			return seen.proof, err
		}
		s.mu.Lock()
		w.owners = seen.owners
		s.mu.Unlock()
		stands()
		select {
		case <-w.woken:
		case <-ctx.Done():
			return nil, notDone(ctx)
		case <-s.life.Done():
			return nil, errEnded
		}
	}
}

// A sight is what a waiter has seen.
type sight struct {
	moved  bool
	untold bool // if something moves the session is told only where farsync_watches says so
	proof  *driver.View
	owners []string // of the entries that were looked at
}

// look reports whether one of the targets has moved, and if so shows what is ahead of e.
func (s *session) look(t *tx, e driver.Entry, on []driver.Target) (seen sight, err error) {
	for _, target := range on {
		moved, told, err := s.lookAt(t, e, target)
		if err != nil {
			return sight{}, err
		}
		seen.moved = seen.moved || moved
		seen.untold = seen.untold || !told
	}
	seen.owners = t.owners
	if !seen.moved || e.ID == "" {
		return seen, nil
	}
	// One transaction sees one state of the file, so what is shown is a proof.
	v, err := t.view(e, maxProof)
	switch {
	case errors.Is(err, driver.ErrGone):
		err = nil // nothing to prove
	case err == nil && v.All:
		seen.proof = &v
	}
	return seen, err
}

// lookAt reports whether a target has moved, and if not, whether the session is told of it in any case: of its own
// entries, and of the one next ahead of e.
func (s *session) lookAt(t *tx, e driver.Entry, target driver.Target) (moved, told bool, err error) {
	was := target.Entry
	switch target.What {
	case driver.Registered:
		is, err := t.register(was.Queue)
		return is.Version != was.Version, false, err
	case driver.Joined:
		list, err := t.rows("ahead", was.Queue, int64(last), 1)
		return len(list) > 0, false, err
	}
	is, err := t.one("look", was.ID)
	switch {
	case errors.Is(err, driver.ErrGone):
		return true, false, nil
	case err != nil:
		return false, false, err
	case !is.session.Valid:
		return false, false, fmt.Errorf("entry %s in %s: %w", is.ID, is.Queue, errStray)
	}
	switch target.What {
	case driver.Told:
		moved = is.words != ""
	case driver.Changed:
		moved = is.Kind != was.Kind || was.Version != 0 && is.Version != was.Version
	}
	if is.session.String == s.id || e.ID == "" || e.Revision == 0 {
		return moved, is.session.String == s.id, nil
	}
	// What is next ahead now is next until it goes, for nothing is inserted in between.
	next, err := t.rows("ahead", e.Queue, e.Revision, 1)
	return moved, len(next) == 1 && next[0].ID == is.ID, err
}

// wait notes a waiter.
func (s *session) wait(on []driver.Target) *waiter {
	w := &waiter{woken: make(chan struct{}, 1)}
	for _, t := range on {
		w.names = append(w.names, nameOf(t))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[w] = struct{}{}
	select {
	case s.busy <- struct{}{}:
	default:
	}
	return w
}

func (s *session) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w)
}

// wake has those look that wait for one of the names.
func (s *session) wake(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		if names[0] == everything || slices.ContainsFunc(w.names, func(name string) bool { return slices.Contains(names, name) }) {
			select {
			case w.woken <- struct{}{}:
			default:
			}
		}
	}
}

// awaited returns some other sessions that are waited for, any, and whether there is a waiter.
func (s *session) awaited() (owners []string, waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		for _, owner := range w.owners {
			if len(owners) < maxProbes && owner != s.id && !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	return owners, len(s.waiters) > 0
}

// array returns a list as the JSON that statements take.
func array(list []string) string {
	text, _ := json.Marshal(list) // of strings: cannot fail
	return string(text)
}
