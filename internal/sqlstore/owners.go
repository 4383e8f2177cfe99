package sqlstore

import "context"

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

// Bury ends those of some sessions that are over. The statement asks again, for one that had run out may have been renewed since.
// One that has died was not: its ID is never used again.
func (s *Session) Bury(ctx context.Context, owners []Owner) error {
	over, dead := false, []string{}
	for _, o := range owners {
		if o.id == s.ID {
			continue // it can be renewed still
		}
		over = over || o.ranOut
		if s.Dead != nil && s.Dead(o.id) {
			over, dead = true, append(dead, o.id)
		}
	}
	var err error
	for more := over; more && err == nil; {
		more, err = s.bury(ctx, dead)
	}
	return err
}

// bury ends sessions in one transaction, and reports whether another may have more to end.
func (s *Session) bury(ctx context.Context, dead []string) (more bool, err error) {
	list, err := Collect(ctx, s.db.Write, scan1[string], "bury", Array(dead))
	return len(list) > 0, err
}

// buryIn ends the sessions that are over of those with entries in a queue.
func (s *Session) buryIn(ctx context.Context, queue string) error {
	owners, err := s.Owners(ctx, queue, nil)
	if err != nil {
		return err
	}
	return s.Bury(ctx, owners)
}
