package recipe

import (
	"context"
	"errors"
	"slices"

	"github.com/farsync/farsync/driver"
)

// A Queue is one queue of a Store, for callers that look at it or change its size without standing in it. Its methods
// return an error that wraps ErrName if the path is not valid, that of a ctx that has ended, ErrClosed, or what the service
// said.
type Queue struct {
	Store *Store
	Path  string
}

// List returns the entries, oldest first, with their values, and how many of them hold: those at the head, and none while the
// service grants nothing for a while. If limit is
// positive it may leave out all but the oldest limit of them. It may be answered by a server that is behind the others by
// a moment.
func (q Queue) List(ctx context.Context, limit int) (list []driver.Entry, held int, err error) {
	var v driver.View
	err = q.do(ctx, func(ctx context.Context, in *session) (err error) {
		v, err = in.Session.List(ctx, q.Path, limit)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	list = slices.Clone(v.Entries)
	held, _, err = q.held(ctx, list, v.Silent)
	return list, held, err
}

// held returns how many of the entries of the queue hold, none if the service is silent, and its size if they are permits. It sets what
// is known of them here alone.
func (q Queue) held(ctx context.Context, list []driver.Entry, silent bool) (held int, size int64, err error) {
	if len(list) == 0 {
		return 0, 0, nil
	}
	if list[0].Kind == driver.Permit {
		if size, err = q.size(ctx); err != nil {
			return 0, 0, err
		}
	}
	if silent {
		return 0, size, nil
	}
	held = holders(list, max(size, 1))
	for i := range list[:held] {
		list[i].Turn = wordsOf(list[i]).turn
	}
	q.Store.sinceHeld(list[:held])
	return held, size, nil
}

// Survey yields the queues whose paths begin with prefix, in the order of their paths, each with what List returns of it, and
// with its size if it is a semaphore's. It ends when yield returns false.
func Survey(
	ctx context.Context, s *Store, prefix string, yield func(path string, list []driver.Entry, held int, size int64) bool,
) error {
	for after := ""; ; {
		var v driver.View
		err := s.inSession(ctx, func(in *session) verdict {
			return s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
				v, err = in.Survey(ctx, prefix, after, surveyed)
				return err
			})
		})
		page := v.Entries
		if err != nil || len(page) == 0 {
			return err
		}
		for len(page) > 0 {
			after = page[0].Queue
			n := 1
			for n < len(page) && page[n].Queue == after {
				n++
			}
			list := page[:n:n]
			page = page[n:]
			if CheckPath(after) != nil {
				continue // what another program has put there: no primitive has that path
			}
			held, size, err := Queue{s, after}.held(ctx, list, v.Silent)
			if err != nil || !yield(after, list, held, size) {
				return err
			}
		}
	}
}

// surveyed is how many entries one request of a survey asks for.
const surveyed = 500

// sinceHeld sets HeldSince and Turn of the entries that this Store holds, all of one queue.
func (s *Store) sinceHeld(entries []driver.Entry) {
	s.mu.Lock()
	in := s.current
	s.mu.Unlock()
	if in == nil || len(entries) == 0 {
		return
	}
	for _, gr := range in.holding() {
		own := gr.place.Load().entry
		if own.Queue != entries[0].Queue {
			continue
		}
		if i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.ID == own.ID && e.Revision == own.Revision }); i >= 0 {
			entries[i].HeldSince, entries[i].Turn = gr.since, gr.turn()
		}
	}
}

// size returns the current size of a queue of permits.
func (q Queue) size(ctx context.Context) (int64, error) {
	var r driver.Register
	err := q.do(ctx, func(ctx context.Context, in *session) (err error) {
		r, err = in.Register(ctx, q.Path)
		return err
	})
	if err != nil {
		return 0, err
	}
	_, current, err := parseSize(q.Path, r)
	return max(current, 1), err
}

// Wait returns nil once the target may have changed. It may return early for no reason, never late.
func (q Queue) Wait(ctx context.Context, on driver.Target) error {
	return q.wait(ctx, []driver.Target{on})
}

func (q Queue) wait(ctx context.Context, on []driver.Target) error {
	return q.Store.inSession(ctx, func(in *session) verdict {
		if _, silent, err := q.Store.watch(ctx, in, new(driver.Entry), on); err != nil {
			return verdict{err: err, silent: silent}
		}
		return verdict{fate: done}
	})
}

// Resize sets the current size of a queue of permits, and declares it if it has none, or another and no entries. The
// error wraps ErrSize if another size was declared.
func (q Queue) Resize(ctx context.Context, declared, size int64) error {
	if err := CheckPath(q.Path); err != nil {
		return err
	}
	s := q.Store
	return s.inSession(ctx, func(in *session) verdict {
		for {
			r, v := s.readSize(ctx, in, q.Path)
			if v.fate != done {
				return v
			}
			was, is, err := parseSize(q.Path, r)
			switch {
			case err != nil:
				return verdict{fate: not, err: err}
			case was == declared && is == size:
				return v
			case was != declared:
				if v := s.vacant(ctx, in, q.Path, was, declared); v.fate != done {
					return v
				}
			}
			if was == 0 || was == declared {
				_, v = s.writeSize(ctx, in, q.Path, declared, size, r, driver.Entry{})
			} else {
				anew := Request{Queue: q.Path, Kind: driver.Permit, Size: declared}
				_, _, v = s.declare(ctx, in, anew, size, r, "")
			}
			if v.fate == done || !errors.Is(v.err, driver.ErrConflict) {
				return v // else the register, or the queue, has changed
			}
		}
	})
}

// vacant returns an error if the queue has entries that forbid to declare a size: ErrKind, or ErrSize with both sizes. Was
// is 0 if none is declared.
func (s *Store) vacant(ctx context.Context, in *session, queue string, was, declared int64) verdict {
	view, v := s.last(ctx, in, queue)
	if v.fate == done {
		v = s.checkKind(ctx, in, driver.Entry{Queue: queue, Kind: driver.Permit, Units: 1}, view)
	}
	if v.fate == done && was != 0 && len(view.Entries) > 0 && !view.Silent {
		return verdict{fate: not, err: resizeError(was, declared)}
	}
	return v
}

// Ask asks the holder of an entry that List has returned to give it back, whichever turn is held on it. ErrGone means
// that the entry is gone.
func (q Queue) Ask(ctx context.Context, e driver.Entry) error {
	return q.tell(ctx, e, q.Store.options.Holder)
}

// AskTurn is Ask for one turn: the holder of another is not asked. It does not reach clients of other programs. The
// error wraps ErrReleased if it is known that another turn is held.
func (q Queue) AskTurn(ctx context.Context, e driver.Entry, turn int) error {
	if known, ok := turnOf(e); ok && turn != known {
		return notHeld(e, turn, known)
	}
	return q.tell(ctx, e, message{askWord, q.Store.options.Holder, "", turn, true}.words())
}

// do makes one request in whatever session there is.
func (q Queue) do(ctx context.Context, send func(ctx context.Context, in *session) error) error {
	if err := CheckPath(q.Path); err != nil {
		return err
	}
	return q.Store.inSession(ctx, func(in *session) verdict {
		return q.Store.try(ctx, in, func(ctx context.Context, _ int) error { return send(ctx, in) })
	})
}
