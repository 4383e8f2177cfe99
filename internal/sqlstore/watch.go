package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/farsync/farsync/driver"
)

// Watch waits to be woken, and looks after each time. It listens before it looks the first time, so a change between the look
// and the wait has left its mark.
//
// A session is notified without a request when the nearest entry ahead of one of its own moves. For every other target it
// leaves a row, and looks in the same transaction: a change is either seen there, or comes after it and finds the row. Each row
// serves once.
func (s *Session) Watch(
	ctx context.Context, e driver.Entry, on []driver.Target, stands func(),
) (*driver.View, error) {
	list, names := make([]target, len(on)), make([]string, len(on))
	for i, t := range on {
		list[i] = targetOf(t)
		names[i] = list[i].Name
	}
	targets := Array(list)
	woken := s.Waiters.add(names)
	defer s.Waiters.remove(woken)
	look := func(t Tx) (sight, error) { return look(t, e, targets, len(on)) }
	ask := func(t Tx) (sight, error) {
		// To ask for what has moved already would leave a row that nothing removes before the session ends.
		seen, err := look(t)
		if err == nil && !seen.moved {
			_, err = t.Exec("watch", targets, s.ID)
		}
		return seen, err
	}
	for {
		seen, err := transaction(ctx, s.db.Read, look)
		if err == nil && !seen.moved && !seen.told {
			seen, err = transaction(ctx, s.db.Update, ask)
		}
		if err != nil || seen.moved {
			return seen.proof, err
		}
		stands()
		// It is woken by what it waits for, by a name that another Watch waits for as well, or for no reason. If it asked, the row
		// is used up by then: unless something has moved, it looks and asks again.
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, NotDone(ctx)
		case <-s.Life.Done():
			return nil, ErrEnded
		}
	}
}

// A sight is what a waiter has seen.
type sight struct {
	moved bool // one of the targets has
	told  bool // the session is told if one moves
	proof *driver.View
}

// look reports whether one of the targets has moved, and if so shows what is ahead of e. What is next ahead of e is next until
// it goes, for nothing is inserted in between. If it goes, and another entry was next, then that one has gone first, and has
// woken this session. With several targets at most one is next, so the session asks for all of them. A stray is an entry of
// no session: to wait for it would be to wait for ever.
func look(t Tx, e driver.Entry, targets string, n int) (seen sight, err error) {
	err = t.Query(func(r Row) error {
		var id string
		var moved, next, stray bool
		err := r.Scan(&id, &moved, &next, &stray)
		if stray {
			err = fmt.Errorf("entry %s: %w", id, ErrStray)
		}
		seen.moved = seen.moved || moved
		seen.told = next && n == 1
		return err
	}, "sight", targets, e.Queue, e.Revision)
	if err != nil || !seen.moved || e.ID == "" {
		return seen, err
	}
	// One transaction sees one state of the queue, so what is shown is a proof.
	v, err := view(t, e, maxProof)
	switch {
	case errors.Is(err, driver.ErrGone):
		err = nil // nothing to prove
	case err == nil && v.All:
		seen.proof = &v
	}
	return seen, err
}
