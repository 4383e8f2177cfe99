package sqlite

import (
	"context"
	"math"
	"slices"

	"github.com/farsync/farsync/driver"
)

// last is behind every revision, and everyone the limit of a list that has none.
const (
	last     = math.MaxInt64
	everyone = -1
)

// view returns e as it is, and up to limit entries ahead of it, the nearest.
func (t *tx) view(e driver.Entry, limit int) (v driver.View, err error) {
	v.Self = e
	before := int64(last)
	if e.ID != "" {
		self, err := t.one("look", e.ID)
		if err != nil {
			return driver.View{}, err
		}
		v.Self, before = self.Entry, self.Revision
	}
	read := limit
	if limit != everyone {
		read++
	}
	rows, err := t.rows("ahead", e.Queue, before, read)
	if v.All = limit == everyone || len(rows) <= limit; !v.All {
		rows = rows[:limit]
	}
	v.Entries = entries(rows)
	slices.Reverse(v.Entries)
	for i := range v.Entries {
		if v.All {
			v.Entries[i].Ahead = i
		}
	}
	if err == nil && v.Self.Kind == driver.Permit {
		v.Register, err = t.register(e.Queue)
	}
	return v, err
}

func entries(rows []row) []driver.Entry {
	list := make([]driver.Entry, len(rows))
	for i, r := range rows {
		list[i] = r.Entry
	}
	return list
}

// Create inserts the entry's row unless one with its ID is there, and reads what is ahead in the same transaction.
func (s *session) Create(ctx context.Context, e driver.Entry, _ int) (driver.View, error) {
	return update(ctx, s, func(t *tx) (driver.View, error) {
		var since int64
		if !e.Since.IsZero() {
			since = e.Since.UnixMicro()
		}
		n, err := t.exec("create", e.ID, e.Queue, s.id, e.Kind.String(), e.Units, e.Value, since)
		if err != nil {
			return driver.View{}, err
		}
		v, err := t.view(e, maxProof)
		if err != nil && n == 0 {
			return driver.View{}, errExpired // neither was there
		}
		v.Self.Value = e.Value
		if n > 0 && err == nil {
			err = t.moved("+" + e.Queue)
		}
		return v, err
	})
}

// Ahead reads e and what is ahead of it in one transaction. A newcomer, which will not wait, is not shown the entries of
// sessions that are over, of which others may not have heard.
func (s *session) Ahead(ctx context.Context, e driver.Entry, nearest bool) (driver.View, error) {
	limit := everyone
	if nearest {
		limit = 1
	}
	return s.see(ctx, e.ID == "", func(t *tx) (driver.View, error) { return t.view(e, limit) })
}

// List reads the queue from its beginning.
func (s *session) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	if limit <= 0 {
		limit = everyone
	}
	return s.see(ctx, true, func(t *tx) (driver.View, error) {
		rows, err := t.rows("list", queue, limit)
		return driver.View{Entries: entries(rows), All: limit == everyone || len(rows) < limit}, err
	})
}

// see reads a View. If it examines the owners of the entries, and one of them is over, it reads once more.
func (s *session) see(ctx context.Context, examine bool, f func(*tx) (driver.View, error)) (driver.View, error) {
	type shown struct {
		driver.View
		owners []string
	}
	read := func(t *tx) (shown, error) {
		v, err := f(t)
		return shown{v, t.owners}, err
	}
	v, err := query(ctx, s, read)
	if err == nil && examine {
		var buried bool
		if buried, err = s.examine(ctx, v.owners); buried {
			v, err = query(ctx, s, read)
		}
	}
	return v.View, err
}

// Find reads the row of e.
func (s *session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	return query(ctx, s, func(t *tx) (driver.Entry, error) {
		r, err := t.one("find", e.ID)
		return r.Entry, err
	})
}

// Replace updates the row of e, which keeps its revision and its ID.
func (s *session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	return update(ctx, s, func(t *tx) (driver.Entry, error) {
		was, err := t.one("look", e.ID)
		switch {
		case err != nil:
			return driver.Entry{}, err
		case was.Version != e.Version:
			return driver.Entry{}, driver.ErrConflict
		case was.Kind != k && (was.Kind != driver.Write || k != driver.Read):
			return driver.Entry{}, errKind
		}
		is, err := t.one("replace", e.ID, e.Version, k.String(), value)
		if err != nil {
			return driver.Entry{}, err
		}
		return is.Entry, t.changed(is)
	})
}

// Delete deletes the row of e. Its ID is no other entry's. It hands nothing over: the next entry's session looks for itself.
func (s *session) Delete(ctx context.Context, e driver.Entry, _ []driver.Entry) (driver.View, bool, error) {
	found, err := update(ctx, s, func(t *tx) (bool, error) {
		list, err := t.rows("delete", e.ID)
		if err != nil || len(list) == 0 {
			return false, err
		}
		return true, t.changed(list[0])
	})
	return driver.View{}, found, err
}

// Register reads the register of a queue.
func (s *session) Register(ctx context.Context, queue string) (driver.Register, error) {
	return query(ctx, s, func(t *tx) (driver.Register, error) { return t.register(queue) })
}

// SetRegister writes it. A register is never removed, so its versions never go back.
func (s *session) SetRegister(
	ctx context.Context, queue, value string, version int64, head driver.Entry,
) (int64, error) {
	return update(ctx, s, func(t *tx) (int64, error) {
		is, err := t.register(queue)
		if err == nil && is.Version != version {
			err = driver.ErrConflict
		}
		if err == nil && head.ID != "" {
			if _, err = t.one("look", head.ID); err != nil {
				err = driver.ErrConflict
			}
		}
		if err != nil {
			return 0, err
		}
		if _, err := t.exec("write", queue, value, version+1); err != nil {
			return 0, err
		}
		return version + 1, t.moved("=" + queue)
	})
}

// Owned reads the rows of the session.
func (s *session) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	return list(ctx, s, "owned", s.id, array(queues))
}

// Survey reads whole queues, in the order of their paths.
func (s *session) Survey(ctx context.Context, prefix, after string, limit int) ([]driver.Entry, error) {
	return list(ctx, s, "survey", prefix, after, limit)
}

func list(ctx context.Context, s *session, name string, args ...any) ([]driver.Entry, error) {
	return query(ctx, s, func(t *tx) ([]driver.Entry, error) {
		rows, err := t.rows(name, args...)
		return entries(rows), err
	})
}

// Tell writes the words into the row of e, and wakes its session.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) error {
	_, err := update(ctx, s, func(t *tx) (bool, error) {
		r, err := t.one("tell", e.ID, words)
		t.tell(r.session.String, e.ID)
		return true, err
	})
	return err
}

// Heard reads the words in the row of e.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	return query(ctx, s, func(t *tx) (string, error) {
		r, err := t.one("look", e.ID)
		return r.words, err
	})
}
