package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/pause"
)

// A queue of permits has a size, which the service keeps in the queue's register as two numbers. The declared one is what
// all users of the queue must agree on: the first to join declares it, and it is declared anew by an entry that is alone in
// the queue. The current one is the declared one until Resize changes it, and it is what counts.

// sizeGrace is how long a permit that finds another declared size, and entries ahead of it, waits before it takes that
// size for one that is in use: what is ahead may have joined just now, and be about to declare the size anew or to leave.
const sizeGrace = time.Second

var errNotAlone = errors.New("others joined while the size was declared anew")

func makeSize(declared, current int64) string { return fmt.Sprintf("%d %d", declared, current) }

// parseSize undoes makeSize. It returns 0 and 0 for a register without a value.
func parseSize(queue string, r driver.Register) (declared, current int64, err error) {
	if r.Value == "" {
		return 0, 0, nil
	}
	n, err := fmt.Sscanf(r.Value, "%d %d", &declared, &current)
	if err != nil || n != 2 || r.Value != makeSize(declared, current) || declared < 1 || current < 1 {
		return 0, 0, fmt.Errorf("%q stands in the place of the size of semaphore %s, and is none", r.Value, queue)
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
	return fmt.Errorf("%w: declared as %d by its present users, as %d here", ErrSize, declared, asked)
}

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
// Declaring anew takes an entry that has nothing ahead of it, for that may hold units of the old size. An entry that joined
// before the new size was written, be it that which has written it or another that waits, must have nothing behind it
// either: what is behind may have joined before as well, have been told the old size, and have been granted by it. Which
// of those behind did so is not to be seen, so any of them makes it join again, behind them.
//
// Was is the register that p has seen last. If it was written since, and has the same value, then there was another size in
// between: Resize writes no value that is there.
func (s *Store) settleSize(
	ctx context.Context, p *place, r Request, was driver.Register, v driver.View,
) (int64, driver.View, verdict) {
	var grace time.Time // when it ends
	var brake pause.Brake
	// Before is true if p joined before the size was written.
	before := was.Value != "" && was.Value == v.Register.Value && was.Version != v.Register.Version
	for {
		declared, current, err := parseSize(r.Queue, v.Register)
		var got verdict
		switch {
		case err != nil:
			return 0, v, verdict{fate: not, err: err}
		case declared == r.Size:
			if before {
				if got = s.alone(ctx, p); got.fate != done {
					return 0, v, got
				}
			}
			return current, v, verdict{fate: done}
		case declared == 0:
			v.Register, got = s.writeSize(ctx, p.in, r.Queue, r.Size, r.Size, v.Register, driver.Entry{})
			before = got.fate != done // another size may have been written, and then anew
		case len(v.Entries) == 0:
			before = true // if the answer is lost, the register shows whether it was written
			v.Register, got = s.writeSize(ctx, p.in, r.Queue, r.Size, r.Size, v.Register, p.entry)
		default:
			before = true
			if grace.IsZero() {
				grace = time.Now().Add(min(sizeGrace, p.in.ttl/3))
			}
			if !time.Now().Before(grace) {
				return 0, v, verdict{fate: not, err: sizeError(declared, r.Size)}
			}
			s.awaitSize(ctx, p, grace, &brake, registered(r.Queue, v.Register), v.Entries[len(v.Entries)-1])
			got.err = driver.ErrConflict // look
		}
		switch {
		case got.fate == done:
			continue // what was ahead when the old register was read still is all that is
		case !errors.Is(got.err, driver.ErrConflict):
			return 0, v, got
		}
		if v, got = s.ahead(ctx, p.in, p.entry, true); got.fate != done {
			return 0, v, got
		}
	}
}

// awaitSize waits until the register or the nearest entry ahead may have changed, or the grace has ended.
func (s *Store) awaitSize(
	ctx context.Context, p *place, grace time.Time, brake *pause.Brake, register driver.Target, nearest driver.Entry,
) {
	ctx, cancel := p.in.within(ctx, time.Until(grace))
	defer cancel()
	if _, _, err := s.watch(ctx, p.in, &p.entry, []driver.Target{register, {Entry: nearest}}); err != nil {
		<-ctx.Done() // it is refused: look once more when the time is up
	}
	brake.Woken(ctx, false)
}

// alone returns errNotAlone if there are entries behind p. A List may not show those that have just joined.
func (s *Store) alone(ctx context.Context, p *place) verdict {
	v, got := s.last(ctx, p.in, p.entry.Queue)
	if n := len(v.Entries); got.fate == done && n > 0 && v.Entries[n-1].ID != p.entry.ID {
		return verdict{fate: not, err: errNotAlone}
	}
	return got
}

// last returns what is ahead of an entry that would join now, at least the last. It is none for a permit: a service may show
// one entry in place of those.
func (s *Store) last(ctx context.Context, in *session, queue string) (driver.View, verdict) {
	return s.ahead(ctx, in, driver.Entry{Queue: queue, Kind: driver.Exclusive, Units: 1}, true)
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
