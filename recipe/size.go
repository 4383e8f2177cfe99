package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
)

// A queue of permits has a size, which the service keeps in the queue's register as two numbers. The declared one is what
// all users of the queue must agree on: the first to join declares it, and it is declared anew by an entry that is alone in
// the queue. The current one is the declared one until Resize changes it, and it is what counts.

var errNotAlone = errors.New("others joined while the size was declared anew")

func makeSize(declared, current int64) string { return fmt.Sprintf("%d %d", declared, current) }

// parseSize undoes makeSize. It returns 0 and 0 for a register without a value.
func parseSize(queue string, r driver.Register) (declared, current int64, err error) {
	if r.Value == "" {
		return 0, 0, nil
	}
	n, err := fmt.Sscanf(r.Value, "%d %d", &declared, &current)
	if err != nil || n != 2 || r.Value != makeSize(declared, current) || declared < 1 || current < 1 {
		return 0, 0, fmt.Errorf("%.64q stands in the place of the size of semaphore %s, and is none: Resize, or farsync resize, sets it", r.Value, queue)
	}
	return declared, current, nil
}

// fits refuses a permit that would wait for ever.
func fits(units, size int64) error {
	if units > size {
		return fmt.Errorf("%w: %d of %d", ErrTooLarge, units, size)
	}
	return nil
}

func sizeError(declared, asked int64) error {
	return fmt.Errorf("%w: declared as %[2]d by its present users, as %[3]d here; in a rolling deployment go on declaring %[2]d, and Resize, or farsync resize --limit %[2]d, to %[3]d",
		ErrSize, declared, asked)
}

// A otherSizeError says which size an entry has found that is not its own, behind others. A change of on ends it.
type otherSizeError struct {
	error
	on []driver.Target
}

func (e *otherSizeError) Unwrap() error { return e.error }

// registered returns a target that is the end of the register as it is.
func registered(queue string, r driver.Register) driver.Target {
	e := driver.Entry{Queue: queue, Version: r.Version, Value: []byte(r.Value)}
	return driver.Target{Entry: e, What: driver.Registered}
}

// registerIn returns the register that is among the targets, or none.
func registerIn(on []driver.Target) (r driver.Register) {
	for _, t := range on {
		if t.What == driver.Registered {
			r = driver.Register{Value: string(t.Entry.Value), Version: t.Entry.Version}
		}
	}
	return r
}

// settleSize makes sure that p's queue has the declared size of the request, and returns the current size with the view
// that it was read in.
//
// Only an entry that has nothing ahead of it declares the size anew, for what is ahead may hold units of the old size. All other
// entries that find another size leave the queue at once, and come back when the size or what was ahead has changed: see outwait.
//
// Was is the register that p has seen last. If it was written since, and has the same value, then there was another size in
// between, which a person or an earlier version has declared beside others: those behind p may have been granted by it. Nothing shows
// which of them were, so any of them makes p join again, behind all of them. Resize writes no value that is there.
func (s *Store) settleSize(
	ctx context.Context, p *place, r Request, was driver.Register, v driver.View,
) (int64, driver.View, verdict) {
	var g grace
	anew := was.Value != "" && was.Value == v.Register.Value && was.Version != v.Register.Version
	for {
		declared, current, err := parseSize(r.Queue, v.Register)
		var got verdict
		switch {
		case err != nil:
			return 0, v, verdict{fate: not, err: err}
		case declared == r.Size:
			if anew {
				got = s.alone(ctx, p)
			} else {
				got.fate = done
			}
			return current, v, got
		case declared == 0:
			v.Register, got = s.writeSize(ctx, p.in, r.Queue, r.Size, r.Size, v.Register, driver.Entry{})
		case len(v.Entries) == 0:
			v.Register, got = s.declareAsHead(ctx, p, r, v.Register, &g)
		case v.All:
			// The entries in between may be about to leave as well. As long as the oldest stays, it is the one to declare the size anew.
			on := []driver.Target{registered(r.Queue, v.Register), {Entry: v.Entries[0]}}
			return 0, v, verdict{fate: not, err: &otherSizeError{sizeError(declared, r.Size), on}}
		default:
			got.err = driver.ErrConflict // one entry may be shown in place of all
		}
		switch {
		case got.fate == done:
			continue // nothing is ahead that was not when the old register was read
		case !errors.Is(got.err, driver.ErrConflict):
			return 0, v, got
		}
		if v, got = s.ahead(ctx, p.in, p.entry, false); got.fate != done {
			return 0, v, got
		}
		if v.Silent {
			return 0, v, verdict{fate: not, err: errNotAlone}
		}
		v.All = true
	}
}

// declareAsHead declares the size anew for p, which has nothing ahead of it. Entries behind it may have joined by the old size, and
// have been granted. Entries that have found another size than theirs are about to leave, and are given the grace; others hold.
func (s *Store) declareAsHead(
	ctx context.Context, p *place, r Request, was driver.Register, g *grace,
) (driver.Register, verdict) {
	asked := time.Now()
	now, others, got := s.declare(ctx, p.in, r, r.Size, was, p.entry.ID)
	g.saw(asked)
	if got.fate == done || len(others) == 0 {
		return now, got
	}
	last := others[len(others)-1]
	left := time.Until(g.until(s, last.ID))
	if left <= 0 {
		declared, _, err := parseSize(r.Queue, was)
		return was, verdict{fate: not, err: cmp.Or(err, sizeError(declared, r.Size))}
	}
	until, cancel := p.in.within(ctx, left)
	defer cancel()
	on := []driver.Target{registered(r.Queue, was), {Entry: last}}
	if _, _, err := s.watch(until, p.in, &p.entry, on); err != nil {
		<-until.Done() // it is refused: look once more when the time is up
	}
	return was, got
}

// declare declares the size of a queue anew, in which nothing may stand but the entry with the ID head, if that is not empty.
//
// No service compares that a queue is empty. So an entry joins that asks for more units than there are: until it is removed,
// nothing behind it is granted. If nothing is ahead of it then but head, all that were granted by the old size have gone; and the register is
// written on condition that it still stands there. Whatever is granted later has looked after it was removed, and has seen the new size. If
// anything else is ahead, declare returns that, and ErrConflict.
func (s *Store) declare(
	ctx context.Context, in *session, r Request, current int64, was driver.Register, head string,
) (now driver.Register, others []driver.Entry, got verdict) {
	r.Units, r.Value = math.MaxInt64, nil
	cover := s.newPlace(ctx, in, &r)
	if _, got = s.create(ctx, cover); got.fate != done {
		return was, nil, got
	}
	v, got := s.ahead(ctx, in, cover.entry, false)
	if got.fate == done {
		others = slices.DeleteFunc(slices.Clone(v.Entries), func(e driver.Entry) bool { return e.ID == head })
		got = verdict{fate: not, err: driver.ErrConflict}
	}
	if now = was; len(others) == 0 && errors.Is(got.err, driver.ErrConflict) {
		now, got = s.writeSize(ctx, in, r.Queue, r.Size, current, was, cover.entry)
	}
	if err := s.remove(ctx, cover); err != nil && !errors.Is(err, driver.ErrGone) && got.fate == done {
		got = verdict{fate: not, err: err} // until it is gone it blocks its own caller, too
	}
	return now, others, got
}

// alone returns errNotAlone if there are entries behind p. A List may not show entries that have just joined.
func (s *Store) alone(ctx context.Context, p *place) verdict {
	v, got := s.last(ctx, p.in, p.entry.Queue)
	if n := len(v.Entries); got.fate == done && n > 0 && v.Entries[n-1].ID != p.entry.ID {
		return verdict{fate: not, err: errNotAlone}
	}
	return got
}

// last returns all that is ahead of an entry that would join now, for the last is among them. It is none for a permit:
// a service may show one entry in place of those.
func (s *Store) last(ctx context.Context, in *session, queue string) (driver.View, verdict) {
	return s.ahead(ctx, in, driver.Entry{Queue: queue, Kind: driver.Exclusive, Units: 1}, false)
}

// writeSize makes one change of the register, from what it was, and returns what it is then. ErrConflict is an answer: an
// earlier attempt of this call or another client was quicker, and the register is to be read again.
func (s *Store) writeSize(
	ctx context.Context, in *session, queue string, declared, current int64, was driver.Register, head driver.Entry,
) (now driver.Register, v verdict) {
	now.Value = makeSize(declared, current)
	v = s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
		now.Version, err = in.SetRegister(ctx, queue, now.Value, was.Version, head)
		return err
	})
	switch {
	case v.fate == done:
		return now, v
	case errors.Is(v.err, driver.ErrConflict):
		v.fate = not
	}
	return was, v
}

// readSize reads the register.
func (s *Store) readSize(ctx context.Context, in *session, queue string) (r driver.Register, v verdict) {
	v = s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
		r, err = in.Register(ctx, queue)
		return err
	})
	return r, v
}
