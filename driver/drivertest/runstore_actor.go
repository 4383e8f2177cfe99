package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// An actor is a client in a play.
type actor struct {
	*stage
	store *recipe.Store
	ctx   context.Context // the performance's: it ends when patience does
}

func (a *actor) request(k driver.Kind, units, size int64) recipe.Request {
	return recipe.Request{Queue: playQueue, Kind: k, Units: units, Size: size}
}

func trying(r recipe.Request) recipe.Request {
	r.Try = true
	return r
}

// release ends a hold. Only if nothing went wrong must it be confirmed.
func (a *actor) release(h *recipe.Hold) error {
	if err := h.Release(); err != nil && len(a.placed) == 0 {
		return err
	}
	return nil
}

// once acquires, works and releases.
func (a *actor) once(r recipe.Request, beside int) error { return a.works(r, work, beside) }

// works is once, for so long.
func (a *actor) works(r recipe.Request, long time.Duration, beside int) error {
	h, err := recipe.Acquire(a.ctx, a.store, &r)
	if err != nil {
		return err
	}
	a.use(h, long, beside)
	return a.release(h)
}

func (a *actor) twice(r recipe.Request, beside int) error {
	return errors.Join(a.once(r, beside), a.once(r, beside))
}

// tries takes the lock if it is free, some times.
func (a *actor) tries(r recipe.Request) error {
	for range 4 {
		h, err := recipe.Acquire(a.ctx, a.store, new(trying(r)))
		switch {
		case errors.Is(err, recipe.ErrLocked):
		case err != nil:
			return err
		default:
			a.use(h, work, 1)
			if err := a.release(h); err != nil {
				return err
			}
		}
		a.sleep(work)
	}
	return nil
}

// turns has goroutines take turns on one gate.
func (a *actor) turns(goroutines int) error {
	r := a.request(driver.Exclusive, 1, 0)
	r.Line = true
	done := make(chan error)
	for range goroutines {
		go func() {
			var err error
			for range 2 {
				var h *recipe.Hold
				if h, err = recipe.Acquire(a.ctx, a.store, &r); err != nil {
					break
				}
				a.use(h, work/20, 1)
				if err = a.release(h); err != nil {
					break
				}
			}
			done <- err
		}()
	}
	var err error
	for range goroutines {
		err = errors.Join(err, <-done)
	}
	return err
}

// lines has goroutines wait in the line of one gate, so long that more entries than one stand for them. The first, whose
// entry it is in the beginning, gives up.
func (a *actor) lines() error {
	r := a.request(driver.Exclusive, 1, 0)
	r.Line = true
	done := make(chan error)
	for i := range 4 {
		go func() {
			ctx, cancel := a.ctx, context.CancelFunc(func() {})
			if i == 0 {
				ctx, cancel = context.WithTimeout(ctx, work/2)
			} else {
				a.sleep(work / 4)
			}
			defer cancel()
			h, err := recipe.Acquire(ctx, a.store, &r)
			switch {
			case err == nil:
				a.use(h, work/2, 1)
				err = a.release(h)
			case errors.Is(err, context.DeadlineExceeded) && a.ctx.Err() == nil:
				err = nil
			}
			done <- err
		}()
	}
	var err error
	for range 4 {
		err = errors.Join(err, <-done)
	}
	return err
}

// downgrades turns a writer into a reader.
func (a *actor) downgrades() error {
	h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Write, 1, 0)))
	if err != nil {
		return err
	}
	a.use(h, work, 1)
	if err := h.Change(a.ctx, driver.Read, nil); err != nil && len(a.placed) == 0 {
		return err
	}
	a.use(h, work, 3)
	return a.release(h)
}

// resizes changes the size of a semaphore twice.
func (a *actor) resizes(declared, size int64) error {
	q := recipe.Queue{Store: a.store, Path: playQueue}
	a.sleep(work / 2)
	if _, err := q.Resize(a.ctx, declared, size); err != nil {
		return err
	}
	a.sleep(work)
	_, err := q.Resize(a.ctx, declared, declared)
	return err
}

// declares uses a semaphore of a size, which may be another than it has.
func (a *actor) declares(size int64, after time.Duration) error {
	a.sleep(after)
	h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Permit, 1, size)))
	switch {
	case errors.Is(err, recipe.ErrSize) && len(a.placed) > 0:
		return nil // the entry before may still be there
	case err != nil:
		return err
	}
	a.use(h, work, 3)
	return a.release(h)
}

// leads becomes the leader, and proclaims.
func (a *actor) leads() error {
	r := a.request(driver.Candidate, 1, 0)
	r.Value = []byte("starting")
	h, err := recipe.Acquire(a.ctx, a.store, &r)
	if err != nil {
		return err
	}
	for _, value := range []string{"ready", "leaving"} {
		if err := h.Change(a.ctx, driver.Candidate, []byte(value)); err != nil && len(a.placed) == 0 {
			return err
		}
	}
	a.use(h, work, 1)
	return a.release(h)
}

// observes follows the leader for a while.
func (a *actor) observes() error {
	q := recipe.Queue{Store: a.store, Path: playQueue}
	ctx, cancel := context.WithTimeout(a.ctx, 2*work)
	defer cancel()
	for {
		list, _, err := q.List(ctx, 1)
		on := driver.Target{Entry: driver.Entry{Queue: playQueue}, What: driver.Joined}
		if len(list) > 0 {
			on = driver.Target{Entry: list[0], What: driver.Changed}
		}
		if err == nil {
			err = q.Wait(ctx, on)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
}

// yields gives the lock back when it is asked to, or after a while.
func (a *actor) yields() error {
	h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Exclusive, 1, 0)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, 5*work)
	defer cancel()
	if err := h.Asked(ctx); err != nil && len(a.placed) == 0 {
		return err
	}
	a.use(h, work, 1)
	return a.release(h)
}

// asks asks the holder to give the lock back, and waits for it.
func (a *actor) asks() error {
	a.sleep(work)
	q := recipe.Queue{Store: a.store, Path: playQueue}
	list, _, err := q.List(a.ctx, 0)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		if err := q.Ask(a.ctx, list[0]); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return a.once(a.request(driver.Exclusive, 1, 0), 1)
}

// handsOn has a goroutine take the turn after another, and keep it until it is broken, or for long. Only who has named
// that turn may break it.
func (a *actor) handsOn() error {
	r := a.request(driver.Exclusive, 1, 0)
	r.Line = true
	first, err := recipe.Acquire(a.ctx, a.store, &r)
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		h, err := recipe.Acquire(a.ctx, a.store, &r)
		if err != nil {
			done <- err
			return
		}
		a.use(h, work/20, 1)
		select {
		case <-h.Life().Done():
		case <-time.After(4 * playTTL):
		}
		a.endsBroken(h)
		done <- nil
	}()
	a.use(first, work/20, 1)
	return errors.Join(a.release(first), <-done)
}

// endsBroken gives back a hold that another client may have broken.
func (a *actor) endsBroken(h *recipe.Hold) {
	revision, turn := h.Token()
	err := h.Release()
	if broken := errors.Is(err, recipe.ErrBroken); broken && !a.named(revision, turn) {
		a.Errorf("turn %d was broken, and nobody has named it", turn)
	} else if !broken && len(a.placed) == 0 && a.named(revision, turn) {
		a.Errorf("turn %d was not broken: %v", turn, err)
	}
}

// breaks breaks that turn of whatever is held.
func (a *actor) breaks(turn int) error {
	a.sleep(work/40 + time.Duration(turn)*work/4) // turn 0 while it is held, and turn 1 when it is
	q := recipe.Queue{Store: a.store, Path: playQueue}
	list, held, err := q.List(a.ctx, 0)
	if err != nil || held == 0 {
		return err
	}
	a.name(list[0].Revision, turn)
	ctx, cancel := context.WithTimeout(a.ctx, 3*playTTL)
	defer cancel()
	err = q.Break(ctx, list[0], turn, "it is time", false)
	switch {
	case len(a.placed) > 0, turn == 0 && errors.Is(err, recipe.ErrReleased):
		return nil
	case turn == 0 && !a.named(list[0].Revision, 1):
		a.Errorf("turn 0 was broken when turn 1 was held: %v", err)
	}
	return err
}

// name notes that a turn may be broken, and named reports it.
func (s *stage) name(revision int64, turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaking = append(s.breaking, [2]int64{revision, int64(turn)})
}

func (s *stage) named(revision int64, turn int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.breaking, [2]int64{revision, int64(turn)})
}

// givesUp waits for no longer than a part of what others work.
func (a *actor) givesUp(r recipe.Request) error {
	for _, d := range []time.Duration{0, work / 2, work * 3 / 2} {
		ctx, cancel := context.WithTimeout(a.ctx, d)
		h, err := recipe.Acquire(ctx, a.store, &r)
		began := time.Now()
		<-ctx.Done()
		cancel()
		switch {
		case err == nil:
			a.use(h, work, 1)
			err = a.release(h)
		case errors.Is(err, recipe.ErrLocked):
			err = nil
		case errors.Is(err, context.DeadlineExceeded):
			err = nil
			if late := time.Since(began); late > 0 {
				a.Errorf("it has returned %v before the end of its ctx", late)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closes closes its Store while it holds or waits.
func (a *actor) closes(after time.Duration) error {
	a.sleep(after)
	done := make(chan error, 1)
	go func() {
		h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Exclusive, 1, 0)))
		if err == nil {
			a.use(h, work, 1)
			if err = h.Release(); len(a.placed) > 0 {
				err = nil
			}
		}
		done <- err
	}()
	a.sleep(work / 4)
	if err := a.store.Close(); err != nil && len(a.placed) == 0 {
		return err
	}
	if err := <-done; err != nil && !errors.Is(err, recipe.ErrClosed) {
		return err
	}
	return nil
}
