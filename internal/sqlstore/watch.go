package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

// Watch waits to be woken, and looks after each time. It listens before it looks the first time, so a change between
// the look and the wait has left its mark.
//
// A session is notified without a request when the nearest entry ahead of one of its own moves. For every other target
// it leaves a row, and looks in the same transaction: a change is either seen there, or comes after it and finds the
// row. Each row serves once.
func (s *Session) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	list, names := make([]Target, len(on)), make([]string, 0, len(on)+1)
	for i, t := range on {
		list[i] = targetOf(t)
		names = append(names, list[i].Name)
	}
	targets := Array(list)
	if e.ID != "" {
		names = append(names, e.ID) // once it is gone, it is next behind nothing, and the session has to ask
	}
	woken := s.Waiters.add(names, list...)
	defer s.Waiters.remove(woken)
	if len(list) > 0 && list[0].What == "granted" {
		return nil, s.awaitTurn(ctx, e, list, woken, stands)
	}
	for {
		if err := s.db.Hear(ctx); err != nil {
			return nil, err
		}
		var moved, told bool
		var err error
		if len(on) == 1 || !s.Asks {
			moved, told, err = s.look(ctx, s.bounded(s.db.Read), "sight", targets, e.Queue, e.Revision)
		}
		if err == nil && !moved && !told {
			moved, _, err = s.look(ctx, s.bounded(s.db.Write), "watch", targets, e.Queue, e.Revision, s.ID)
		}
		switch {
		case err != nil:
			return nil, err
		case moved:
			return s.proof(ctx, e)
		}
		stands()
		// It is woken by what it waits for, by a name that another Watch waits for as well, or for no reason. If it asked,
		// the row is used up by then: unless something has moved, it looks and asks again.
		if err := s.sleep(ctx, woken); err != nil {
			return nil, err
		}
		// Most of what can have moved is ahead of e, and then one read shows it and is the proof.
		if v, err := s.proof(ctx, e); err != nil || v != nil && moves(on, *v) {
			return v, err
		}
	}
}

// awaitTurn waits until the permit e may be granted, by the statement turned, or the size of its semaphore may have
// changed. Who lets it in tells its session, which need not have asked. The caller looks, so this does not look again
// when it is woken.
func (s *Session) awaitTurn(ctx context.Context, e driver.Entry, list []Target, woken <-chan struct{}, stands func()) error {
	if err := s.db.Hear(ctx); err != nil {
		return err
	}
	var version int64
	for _, t := range list {
		if t.What == "registered" {
			version = t.Version
		}
	}
	type turned struct {
		moved bool
		stray string
	}
	answer, err := Collect(ctx, s.bounded(s.db.Read), func(rows Rows) (is turned, err error) {
		return is, rows.Scan(&is.moved, &is.stray)
	}, "turned", e.Queue, e.ID, version)
	is, err := one(answer, err, nil)
	switch {
	case err != nil || is.moved:
		return err
	case is.stray != "":
		return fmt.Errorf("entry %s: %w", legible.Name(is.stray), ErrStray)
	}
	stands()
	return s.sleep(ctx, woken)
}

// sleep waits until a Watch is woken.
func (s *Session) sleep(ctx context.Context, woken <-chan struct{}) error {
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return NotDone(ctx)
	case <-s.Life.Done():
		return ErrEnded
	}
}

// bounded bounds each request: once a Watch stands nobody else does, and a request that was lost would keep it from
// what it is told meanwhile.
func (s *Session) bounded(run Run) Run {
	return func(ctx context.Context, f func(Rows) error, statement string, args ...any) error {
		ctx, cancel := context.WithTimeout(ctx, s.ttl/3)
		defer cancel()
		return run(ctx, f, statement, args...)
	}
}

// look looks at the targets. It reports whether one has moved, and whether the session is told when one moves without
// having asked. The entry next ahead of e is next until it goes, for nothing is inserted in between. If it goes, and
// another entry was next, then that one has gone first, and has woken this session. If e goes, its session is told,
// too, if there was anything ahead. Of several entries at most one is next, so the session asks for all of them, unless
// the driver polls, for which all are. A stray is an entry of no session: to wait for it would be to wait for ever.
func (s *Session) look(
	ctx context.Context, run Run, statement string, args ...any,
) (moved, told bool, err error) {
	type sight struct {
		id                 string
		moved, next, stray bool
	}
	list, err := Collect(ctx, run, func(rows Rows) (is sight, err error) {
		return is, rows.Scan(&is.id, &is.moved, &is.next, &is.stray)
	}, statement, args...)
	told = len(list) > 0
	for _, is := range list {
		if is.stray {
			return false, false, fmt.Errorf("entry %s: %w", legible.Name(is.id), ErrStray)
		}
		moved = moved || is.moved
		told = told && is.next
	}
	return moved, told, err
}

// proof reads what is ahead of e. It is nil if that is too much to prove anything, and if there is no e.
func (s *Session) proof(ctx context.Context, e driver.Entry) (*driver.View, error) {
	if e.ID == "" {
		return nil, nil //nolint:nilnil // nothing to prove
	}
	v, err := s.ahead(ctx, s.bounded(s.db.Read), e, maxProof, "ahead")
	switch {
	case errors.Is(err, driver.ErrGone):
		return nil, nil //nolint:nilnil // nothing to prove
	case err != nil || !v.All:
		return nil, err
	}
	return &v, nil
}

// Behind reads what is ahead of e by a statement that takes the first target's entry, too, and reports whether a target
// or e has moved.
func (s *Session) Behind(
	ctx context.Context, run Run, e driver.Entry, on []driver.Target, statement string,
) (proof *driver.View, moved bool, err error) {
	v, err := s.ahead(ctx, run, e, 1, statement, on[0].Entry.ID)
	switch {
	case errors.Is(err, driver.ErrGone):
		return nil, true, nil
	case err != nil || !moves(on, v):
		return nil, false, err
	case !v.All:
		return nil, true, nil
	default:
		return &v, true, nil
	}
}

// moves reports whether one of the targets was an entry ahead that v shows no more.
func moves(on []driver.Target, v driver.View) bool {
	return slices.ContainsFunc(on, func(t driver.Target) bool {
		return t.What == driver.Gone && t.Entry.Queue == v.Self.Queue && t.Entry.Revision < v.Self.Revision &&
			!slices.ContainsFunc(v.Entries, func(e driver.Entry) bool { return e.ID == t.Entry.ID })
	})
}
