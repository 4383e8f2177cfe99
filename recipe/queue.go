package recipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

// A Queue is one queue of a Store, for callers that look at it or change its size without standing in it. Its methods
// return an error that wraps ErrPath if the path is not valid, the error of a ctx that has ended, ErrClosed, or what the service
// said.
type Queue struct {
	Store *Store
	Path  string
}

// List returns the entries, oldest first, with their values, and how many of them hold: those at the head, and none while the
// service grants nothing for a while. If limit is
// positive it may leave out all but the oldest limit of them. It may be answered by a server that is behind the others by
// a moment.
//
// Who lists a queue may be about to do something to what holds, so a queue that Listing finds Stray is refused.
func (q Queue) List(ctx context.Context, limit int) (list []driver.Entry, held int, err error) {
	l, err := q.Listing(ctx, limit)
	if err == nil && l.Stray != nil {
		return nil, 0, l.Stray
	}
	return l.Entries, l.Held, err
}

// A Listing is what a queue shows of itself.
type Listing struct {
	// Entries are as List returns them, and Held is how many of them hold.
	Entries []driver.Entry
	Held    int
	// Size is how many units a semaphore has. It is 0 for all others, and where it is not known.
	Size int64
	// Odd says that the size of a semaphore is not known, because another program has written something else in its
	// place. No client is granted units then, and each that waits for some gives up at its next look, which that write
	// has made it take. So all permits at the head of the queue count as held: the permits that stay are holders.
	//
	// Or it names an entry that was made after an entry that stands behind it: another program has put it there, in
	// the place of an entry that it has removed, for example. The client behind may hold, or wait for it. So the
	// entries that would hold without it count as held, and so do all that stand ahead of these.
	//
	// Or it says, of a survey, that the queue may not be read. Then it has no Entries.
	Odd error
	// Stray names an entry among them that no session will ever remove, where the service tells that of an entry by itself:
	// another program has put it there, and it blocks the queue for ever. Or it says why the service refuses to remove an
	// entry whose session is over.
	Stray error
}

// Listing is List, with the size of a semaphore.
func (q Queue) Listing(ctx context.Context, limit int) (l Listing, err error) {
	var v driver.View
	err = q.do(ctx, func(ctx context.Context, in *session) (err error) {
		v, err = in.Session.List(ctx, q.Path, limit)
		return err
	})
	if len(v.Entries) == 0 && err != nil {
		return l, err
	}
	stray := err // beside entries it is what Stray has
	if l, err = q.listing(ctx, slices.Clone(v.Entries), v.Silent); err == nil {
		l.Stray = stray
	}
	return l, err
}

// listing returns what the entries of the queue show. None of them holds if the service is silent. It sets what is known
// of the entries here alone.
func (q Queue) listing(ctx context.Context, list []driver.Entry, silent bool) (l Listing, err error) {
	l.Entries = list
	if len(list) == 0 {
		return l, nil
	}
	if list[0].Kind == driver.Permit {
		switch l.Size, l.Odd, err = q.size(ctx); {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
			return Listing{}, err
		default: // what stands in the place of a size cannot be read as one
			l.Odd = fmt.Errorf("in the place of the size of semaphore %s: %w", q.Path, err)
		}
	}
	switch {
	case silent:
	case l.Odd != nil:
		l.Held = slices.IndexFunc(list, func(e driver.Entry) bool { return e.Kind != driver.Permit })
		if l.Held < 0 {
			l.Held = len(list)
		}
	default:
		l.Held, l.Odd = heldIn(list, max(l.Size, 1))
	}
	for i := range list {
		if list[i].Units < 1 {
			list[i].Kind, list[i].Units = driver.Foreign, 1 // no client asks for none: another program has written it
		}
	}
	for i := range list[:l.Held] {
		list[i].Turn = wordsOf(list[i]).turn
	}
	q.Store.sinceHeld(list[:l.Held])
	return l, nil
}

// heldIn returns how many entries of a queue hold, all of them at its head. Odd names an entry that has come to stand
// ahead of an earlier one. Entries are in the order of their revisions, but for two. A reader may have the place of a
// writer, and then has an older place than its revision says. An entry of no session is no client's, and is named
// elsewhere.
func heldIn(list []driver.Entry, size int64) (held int, odd error) {
	oldest := make([]int64, len(list)+1) // the lowest revision from that entry on
	oldest[len(list)] = math.MaxInt64
	for i := len(list) - 1; i >= 0; i-- {
		oldest[i] = oldest[i+1]
		if e := list[i]; e.Kind != driver.Foreign && e.Session != "" && e.Revision > 0 {
			oldest[i] = min(oldest[i], e.Revision)
		}
	}
	intruder := func(i int) bool {
		return list[i].Kind != driver.Read && list[i].Session != "" && list[i].Revision > oldest[i+1]
	}
	var others []driver.Entry
	var places []int
	for i, e := range list {
		if intruder(i) {
			if odd == nil {
				odd = fmt.Errorf("entry %s was made after an entry that stands behind it: another program has put it there, and it cannot be told"+
					" which of the two holds", legible.Quote(e.ID))
			}
			continue
		}
		others, places = append(others, e), append(places, i)
	}
	held = holders(others, size)
	if odd != nil && held > 0 {
		held = places[held-1] + 1
	}
	return held, odd
}

// Survey yields the queues whose paths begin with prefix, in the order of their paths, each with what Listing returns
// of it. It ends when yield returns false.
func Survey(ctx context.Context, s *Store, prefix string, yield func(path string, l Listing) bool) error {
	for after := ""; ; {
		var v driver.View
		err := s.inSession(ctx, func(in *session) verdict {
			return s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
				v, err = in.Survey(ctx, prefix, after, surveyPage)
				return err
			})
		})
		// A row that says that it stands in an earlier queue would have the survey begin anew there, without end.
		page := slices.DeleteFunc(slices.Clone(v.Entries), func(e driver.Entry) bool { return e.Queue <= after })
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
			if is := list[0]; len(list) == 1 && is.ID == "" && is.Session == "" && is.Revision == 0 { // it may not be read
				if !yield(after, Listing{Odd: errors.New(string(list[0].Value))}) {
					return nil
				}
				continue
			}
			l, err := Queue{s, after}.surveyed(ctx, list, v.Silent)
			if err != nil || !yield(after, l) {
				return err
			}
		}
	}
}

// surveyed is listing for the entries of the queue that a survey has shown. If one of these entries belongs to no session,
// the queue is listed: Listing names that entry in its error, and has the entries in the order in which they joined, as for
// a caller who asks for the queue alone. Where no session has a name, such an entry cannot be told from others.
func (q Queue) surveyed(ctx context.Context, list []driver.Entry, silent bool) (Listing, error) {
	owned := func(e driver.Entry) bool { return e.Session != "" }
	if slices.ContainsFunc(list, owned) && slices.ContainsFunc(list, func(e driver.Entry) bool { return !owned(e) }) {
		if l, err := q.Listing(ctx, 0); err == nil && len(l.Entries) > 0 {
			return l, nil
		}
	}
	return q.listing(ctx, list, silent)
}

// surveyPage is how many entries one request of a survey asks for.
const surveyPage = 500

// sinceHeld sets HeldSince and Turn of the entries that this Store holds, all of one queue.
func (s *Store) sinceHeld(entries []driver.Entry) {
	in := s.inUse()
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

// Size returns the current size of a queue of permits, 0 if none is declared. Data in the place of the size that
// are no size are an error.
func (q Queue) Size(ctx context.Context) (size int64, err error) {
	r, err := q.register(ctx)
	if err != nil {
		return 0, err
	}
	_, size, err = parseSize(q.Path, r)
	return size, err
}

func (q Queue) register(ctx context.Context) (r driver.Register, err error) {
	err = q.do(ctx, func(ctx context.Context, in *session) (err error) {
		r, err = in.Register(ctx, q.Path)
		return err
	})
	return r, err
}

// size returns the current size of a queue of permits. Odd says that what stands in its place is none.
func (q Queue) size(ctx context.Context) (size int64, odd, err error) {
	r, err := q.register(ctx)
	if err != nil {
		return 0, nil, err
	}
	if _, size, odd = parseSize(q.Path, r); odd != nil {
		return 0, odd, nil
	}
	return max(size, 1), nil, nil
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

// Resize sets the current size of a queue of permits. It declares a size if the queue has none, or has another and no
// entries. While there are entries by which another size stands, that size stays declared. Data in the place of a size
// that are no size declare nothing: they are written over.
//
// Entries do not say which size they declare. An entry that is found under another size either is one of the users of
// that size, or has just joined and is about to declare its own anew. By that the current size begins anew as well: a
// size that was set a moment earlier would be lost, although this call and that entry may declare the same. So the
// oldest entry is first given the time for which an Acquire of another size would wait for it. If the entry is still
// there then, and the register as it was, it is a user of that size. What comes later comes after this call: users may
// leave, and others declare anew.
//
// Resize returns the size that is declared beside the size that it has set. It is of the same value of the register, which
// this call has written or found, and so no size that another client has declared since. After an error it is 0.
func (q Queue) Resize(ctx context.Context, declared, size int64) (int64, error) {
	if err := CheckPath(q.Path); err != nil {
		return 0, err
	}
	var g grace
	var stays int64 // a declared size whose users have been given that time. 0: none
	for {
		var now int64
		asked := time.Now()
		err := q.Store.inSession(ctx, func(in *session) (v verdict) {
			now, v = q.resize(ctx, in, declared, size, stays)
			return v
		})
		g.saw(asked)
		if err == nil {
			return now, nil
		}
		if _, used := errors.AsType[*otherSizeError](err); !used {
			return 0, err
		}
		if !q.Store.outwait(ctx, err, &g) {
			stays = now // and if ctx has ended, no request is sent any more
		}
	}
}

// resize is Resize in one session, and returns the size that is declared now. It returns an otherSizeError, and the size that
// the queue was declared with, if that is neither declared nor stays and there are entries.
//
// Each write is on condition of the register that was read before the entries. So of two calls at the same time one
// reads what the other has written. A call whose answer was lost finds its own value, and writes nothing. A size that
// was declared anew in between is read, with the entries that there are by then.
func (q Queue) resize(ctx context.Context, in *session, declared, size, stays int64) (now int64, v verdict) {
	s := q.Store
	for {
		var r driver.Register
		if r, v = s.readSize(ctx, in, q.Path); v.fate != done {
			return 0, v
		}
		was, is, _ := parseSize(q.Path, r)
		keeps := declared // what is declared when the size is set
		if was != declared {
			view, got := s.last(ctx, in, q.Path)
			if got.fate == done {
				got = s.checkKind(ctx, in, driver.Entry{Queue: q.Path, Kind: driver.Permit, Units: 1}, view)
			}
			entries := view.Entries
			switch {
			case got.fate != done:
				return 0, got
			case was == 0 || len(entries) == 0:
				// Nobody has declared anything that counts.
			case view.Silent || !slices.ContainsFunc(entries, isUser):
				// Nothing holds, and another call may be about to declare anew. Once that is over, this one may.
				on := []driver.Target{registered(q.Path, r), {Entry: entries[len(entries)-1]}}
				if _, silent, err := s.watch(ctx, in, new(driver.Entry), on); err != nil {
					return 0, verdict{fate: not, err: err, silent: silent}
				}
				continue
			case was == stays:
				keeps = was
			default:
				on := []driver.Target{registered(q.Path, r), {Entry: entries[0]}}
				return was, verdict{fate: not, err: &otherSizeError{sizeError(was, declared), on}}
			}
		}
		switch {
		case was == keeps && is == size:
			return keeps, v // a value that is there is not written: settleSize takes that for another size in between
		case was == 0 || was == keeps:
			_, v = s.writeSize(ctx, in, q.Path, keeps, size, r, driver.Entry{})
		default:
			anew := Request{Queue: q.Path, Kind: driver.Permit, Size: declared}
			_, _, v = s.declare(ctx, in, anew, size, r, "")
		}
		if v.fate == done || !errors.Is(v.err, driver.ErrConflict) {
			return keeps, v // else the register, or the queue, has changed
		}
	}
}

// isUser reports whether an entry may be a user's. All others are there while a size is declared anew: see declare.
func isUser(e driver.Entry) bool { return e.Units < math.MaxInt64 }

// Ask asks the holder of an entry that List has returned to give it back, whichever turn is held on it. ErrGone means
// that the entry is gone, ErrNoSession that it belongs to no session.
func (q Queue) Ask(ctx context.Context, e driver.Entry) error {
	return q.tell(ctx, e, q.Store.options.Holder)
}

// AskTurn is Ask for one turn: the holder of another is not asked. It does not reach clients of other programs. The
// error wraps ErrReleased if it is known that another turn is held, and ErrNoSession as the error of
// Ask does.
func (q Queue) AskTurn(ctx context.Context, e driver.Entry, turn int) error {
	if known, ok := turnOf(e); ok && turn != known {
		return notHeld(e, turn, known)
	}
	return q.tell(ctx, e, message{askWord, q.Store.options.Holder, "", turn, true}.words())
}

// AskEach calls ask, which is Ask or an AskTurn, for each of these entries. An entry that is gone is no error. The first
// other error ends it, but for ErrNoSession, which it returns once it has asked for all other entries.
func AskEach(ctx context.Context, list []driver.Entry, ask func(ctx context.Context, e driver.Entry) error) (unheard error) {
	for _, e := range list {
		switch err := ask(ctx, e); {
		case errors.Is(err, ErrNoSession):
			unheard = err
		case err != nil && !errors.Is(err, driver.ErrGone):
			return err
		}
	}
	return unheard
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
