package sqlstore

import (
	"context"
	"errors"

	"github.com/farsync/farsync/driver"
)

// An Owner is a session that may be over.
type Owner struct {
	id     string
	ranOut bool // if not, Dead tells
}

// Owners returns those owners of some entries, and of those in a queue, that may be over.
func (s *Session) Owners(ctx context.Context, queue string, entries []string) ([]Owner, error) {
	return Collect(ctx, s.db.Read, func(rows Rows) (o Owner, err error) {
		return o, rows.Scan(&o.id, &o.ranOut)
	}, "owners", queue, Array(entries))
}

// errBusy is the error of a look while another client is ending a session with entries in the queue: the look would
// show entries that are about to go. The Store looks again.
var errBusy = &Error{errors.New("another client is ending a session that has run out"), driver.NotDone}

// BuryKnown is Bury for the owners of some entries, which were read a while ago. If one of them may be over, they are
// read again first. A session may have been renewed since, or its process may have asked to outlast its end, and then
// ended: until its deadline a waiter finds it dead at each look, and a transaction that writes would end nothing.
//
// Nothing is missed for that. A process that has died changes its row no more, so a read that begins afterwards shows
// what the statement bury would find. Only the time can make such a session over, and a deadline that passes after the
// read is seen by the read of the next look. A process that dies after its owner was asked is found dead then, too.
func (s *Session) BuryKnown(ctx context.Context, known []Owner, entries []string) error {
	if _, over := s.over(known); !over {
		return nil
	}
	owners, err := s.Owners(ctx, "", entries)
	if err != nil {
		return err
	}
	return s.Bury(ctx, owners)
}

// over returns the sessions among some that have died, or all if Dead does not tell, and reports whether one may be over.
func (s *Session) over(owners []Owner) (list []string, over bool) {
	list = []string{}
	for _, o := range owners {
		if o.id == s.ID {
			continue // it can be renewed still
		}
		over = over || o.ranOut
		switch {
		case s.Dead == nil:
			list = append(list, o.id)
		case s.Dead(o.id):
			over, list = true, append(list, o.id)
		}
	}
	return list, over
}

// Bury ends the sessions that are over among some. The statement asks again, for a session that had run out may have
// been renewed since. A session that has died was not: its ID is never used again.
func (s *Session) Bury(ctx context.Context, owners []Owner) error {
	list, over := s.over(owners)
	var busy bool
	var err error
	for more := over; more && err == nil; {
		more, busy, err = s.bury(ctx, list)
	}
	if err == nil && busy {
		err = errBusy
	}
	return err
}

// bury ends sessions, in a step that is short however many entries they have. It reports whether another step may have
// more to end, and whether another client is ending a session of the list.
func (s *Session) bury(ctx context.Context, list []string) (more, busy bool, err error) {
	rows, err := Collect(ctx, s.db.Write, scan1[string], "bury", Array(list))
	for _, row := range rows {
		busy = busy || row == "busy"
		more = more || row != "busy"
	}
	return more, busy, err
}

// buryIn ends the sessions that are over of those with entries in a queue.
func (s *Session) buryIn(ctx context.Context, queue string) error {
	owners, err := s.Owners(ctx, queue, nil)
	if err != nil {
		return err
	}
	return s.Bury(ctx, owners)
}
