package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/farsync/farsync/driver"
)

const (
	// maxProof is how many entries a proof or the View of Create shows at most.
	maxProof = 128
	// everything is the limit of a View that shows all.
	everything = math.MaxInt32 - 2
)

// Create inserts the entry's row unless one with its ID is there, and reads what is ahead in the same transaction. So
// an attempt that comes after another, whose answer was lost, finds that one's row, whichever of the two is carried out
// first. And as sessions that insert into a queue take turns, what it shows is all that can ever be ahead.
func (s *Session) Create(ctx context.Context, e driver.Entry, _ int) (driver.View, error) {
	var since int64
	if !e.Since.IsZero() {
		since = e.Since.UnixMicro()
	}
	limit := maxProof
	if s.Nearest && single(e) {
		limit = 1
	}
	statement, args := "create", []any{s.ID, e.Kind.String(), e.Units, e.Value, since}
	if s.decides(e) {
		statement, args = "enter", []any{e.Units, e.Size, s.ID, e.Value, since}
	}
	v, err := s.ahead(ctx, s.inTurn(e.Queue), e, limit, statement, args...)
	if errors.Is(err, driver.ErrGone) {
		err = ErrExpired // what else would have kept it from being there
	}
	if !v.All && limit > 1 && !isTurn(v.Entries) {
		v.Entries = nil // the nearest may not be all that keeps a permit or a reader waiting
	}
	return v, err
}

// inTurn returns Write, which waits for its turn among the Store's joins of the queue.
func (s *Session) inTurn(queue string) Run {
	if s.Joins == nil {
		return s.db.Write
	}
	return func(ctx context.Context, f func(Rows) error, statement string, args ...any) error {
		return s.Joins.Do(ctx, queue, func() error { return s.db.Write(ctx, f, statement, args...) })
	}
}

// Ahead reads e and what is ahead of it at one moment. A newcomer, which will not wait, must not be shown the entries
// of sessions that are over: nothing else may have ended them. While another client is ending one, the look is NotDone.
func (s *Session) Ahead(ctx context.Context, e driver.Entry, waiting bool) (v driver.View, err error) {
	limit := everything
	if waiting && single(e) {
		limit = 1
	}
	if e.ID == "" {
		err = s.buryIn(ctx, e.Queue)
	}
	if err != nil {
		return v, err
	}
	if waiting && e.ID == "" && e.Kind != driver.Permit {
		// It needs no register, and with the oldest comes the name of its holder.
		list, err := s.entries(ctx, "list", e.Queue, limit+1)
		v := driver.View{Self: e, Entries: list[:min(limit, len(list))], All: len(list) <= limit}
		for i := range v.Entries {
			v.Entries[i].Ahead = i
		}
		return v, err
	}
	if waiting && s.decides(e) {
		return s.ahead(ctx, s.db.Read, e, limit, "room", e.Units, e.Size)
	}
	return s.ahead(ctx, s.db.Read, e, limit, "ahead")
}

// List reads the queue from its beginning. Where the database refuses to end a session that has run out, as it does while a
// table of another program refers to a row, that is the error beside the entries.
func (s *Session) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	if limit <= 0 {
		limit = everything
	}
	stuck := s.buryIn(ctx, queue)
	switch {
	case errors.Is(stuck, errBusy): // a list may be behind by a moment
		stuck = nil
	case stuck != nil && Outcome(stuck) != driver.Refused:
		return driver.View{}, stuck
	}
	list, err := s.entries(ctx, "list", queue, limit)
	return driver.View{Entries: list, All: len(list) < limit}, cmp.Or(err, stuck)
}

// Find reads the row of e.
func (s *Session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	list, err := s.entries(ctx, "find", e.ID)
	return one(list, err, driver.ErrGone)
}

// Owned reads the rows of the session. The rows of attempts that were never answered are among them.
func (s *Session) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	var in any
	if queues != nil {
		in = Array(queues)
	}
	return s.entries(ctx, "owned", s.ID, in)
}

// Survey reads whole queues, in the order of their paths.
func (s *Session) Survey(ctx context.Context, prefix, after string, limit int) (v driver.View, err error) {
	v.Entries, err = s.entries(ctx, "survey", prefix, after, limit)
	return v, err
}

func (s *Session) entries(ctx context.Context, statement string, args ...any) ([]driver.Entry, error) {
	return Collect(ctx, s.db.Read, s.scan, statement, args...)
}

// Replace updates the row of e, which keeps its revision and its ID. The version is part of the statement's condition,
// so an attempt that is carried out late changes nothing. Which of the two it is, gone or another version, is asked
// only then.
func (s *Session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	list, err := Collect(ctx, s.db.Write, s.scan, "replace", e.ID, e.Version, k.String(), value)
	if err == nil && len(list) == 0 {
		if _, err = s.Find(ctx, e); err == nil {
			err = driver.ErrConflict
		}
	}
	return one(list, err, nil)
}

// Delete deletes the row of e. Its ID is no other entry's, so a late attempt does no harm. The next entry's
// session is woken and looks for itself.
func (s *Session) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	list, err := Collect(ctx, s.db.Write, scan1[string], "delete", e.ID)
	return driver.View{}, len(list) > 0, err
}

// Register reads the register of a queue. A queue that has none has the zero Register, whose version no register ever
// has.
func (s *Session) Register(ctx context.Context, queue string) (driver.Register, error) {
	list, err := Collect(ctx, s.db.Read, func(rows Rows) (r driver.Register, err error) {
		return r, rows.Scan(&r.Value, &r.Version)
	}, "register", queue)
	return one(list, err, nil)
}

// SetRegister writes it. A register is never removed, so its versions never go back. Whether the version or the head is
// not as it was makes no difference to the caller, which reads both again.
func (s *Session) SetRegister(
	ctx context.Context, queue, value string, version int64, head driver.Entry,
) (int64, error) {
	list, err := Collect(ctx, s.db.Write, scan1[int64], "write", queue, value, version, head.ID)
	return one(list, err, driver.ErrConflict)
}

// Tell writes the words into the row of e.
func (s *Session) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	list, err := Collect(ctx, s.db.Write, scan1[string], "tell", e.ID, words)
	_, err = one(list, err, driver.ErrGone)
	return false, err
}

// Heard reads the words in the row of e.
func (s *Session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	list, err := Collect(ctx, s.db.Read, scan1[string], "heard", e.ID)
	return one(list, err, driver.ErrGone)
}

// Array returns a list as the JSON that statements take.
func Array[T any](list []T) string {
	if list == nil {
		return "[]"
	}
	text, _ := json.Marshal(list) // of strings and numbers: cannot fail
	return string(text)
}

// decides reports whether the database decides when e is granted.
func (s *Session) decides(e driver.Entry) bool { return s.Units && e.Kind == driver.Permit }

// single reports whether e waits for the nearest entry ahead alone.
func single(e driver.Entry) bool { return e.Kind != driver.Read && e.Kind != driver.Permit }
