package drivertest

import (
	"errors"
	"slices"
	"time"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// This file has the play ResizeByAnotherSize. The users of a semaphore declare one unit. A client that declares three
// makes the size two, as the new version of a program does in a rolling deployment, and the users go on declaring one.
//
// A user holds the unit from the beginning, and another waits for one, which there is as soon as the size is set. A third
// tries: beside the holder and the waiter, beside two holders, and once more when the lease of the first was broken. Each
// hold has one unit, so no more hold at once than the size is that a Resize has begun to set.

const (
	usersDeclare  = 1
	otherDeclares = 3
	resizedTo     = 2

	resizeAt = work / 2
	breakAt  = 12 * work
	// userGrace is for how long a Resize, and an Acquire, wait for users to leave who declare another size.
	userGrace = time.Second
	// heardAt is when a holder looks whether its lease was broken: the third time that the Store looks for holders of 3 s.
	heardAt = 4500 * time.Millisecond
)

// room returns how many may hold at once.
func (s *stage) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(usersDeclare, s.resized)
}

// exactly makes sure that something came to pass when so long had passed, if nothing went wrong.
func (a *actor) exactly(what string, began time.Time, after time.Duration) {
	if is := time.Since(began); len(a.placed) == 0 && is != after {
		a.Errorf("%s after %v, not after %v", what, is, after)
	}
}

// mayDiffer is the error of a user's Acquire. Only where a fault has kept all users away may another size be declared.
func (a *actor) mayDiffer(err error) error {
	if errors.Is(err, recipe.ErrSize) && len(a.placed) > 0 {
		return nil
	}
	return err
}

// together has goroutines of one client act.
func (a *actor) together(first, second func() error) error {
	done := make(chan error)
	go func() { done <- second() }()
	err := first()
	return errors.Join(err, <-done)
}

// holdsAUnit holds a unit from the beginning, and works on when the lease was broken.
func (a *actor) holdsAUnit() error {
	h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Permit, 1, usersDeclare)))
	if err != nil {
		return a.mayDiffer(err)
	}
	a.use(h, 30*work, a.room())
	a.endsBroken(h)
	return nil
}

// waitsForAUnit is granted a unit by the Resize, while the first user holds.
func (a *actor) waitsForAUnit() error {
	began := time.Now()
	a.sleep(work / 4)
	h, err := recipe.Acquire(a.ctx, a.store, new(a.request(driver.Permit, 1, usersDeclare)))
	if err != nil {
		return a.mayDiffer(err)
	}
	a.exactly("a waiter was granted", began, resizeAt+userGrace)
	a.use(h, 24*work, a.room())
	return a.release(h)
}

// triesUnits takes a unit if there is one. There is none before the lease of the first user is broken.
func (a *actor) triesUnits() error {
	began := time.Now()
	for _, try := range []struct {
		at   time.Duration
		free bool
	}{{work, false}, {8 * work, false}, {24 * work, true}} {
		a.sleep(try.at - time.Since(began))
		h, err := recipe.Acquire(a.ctx, a.store, new(trying(a.request(driver.Permit, 1, usersDeclare))))
		if free := err == nil; free != try.free && len(a.placed) == 0 {
			a.Errorf("a Try after %v: %v", try.at, err)
		}
		a.exactly("a Try has returned", began, try.at)
		switch {
		case err == nil:
			a.use(h, work, a.room())
			err = a.release(h)
		case errors.Is(err, recipe.ErrLocked):
			err = nil
		}
		if err := a.mayDiffer(err); err != nil {
			return err
		}
	}
	return nil
}

// resizesForOthers sets the size that counts, for users who declare another size than this client. Theirs stays declared
// while one of them holds, and this client is refused.
func (a *actor) resizesForOthers() error {
	began := time.Now()
	a.sleep(resizeAt)
	users := a.resizing()
	declared, err := recipe.Queue{Store: a.store, Path: playQueue}.Resize(a.ctx, otherDeclares, resizedTo)
	if err != nil {
		return err
	}
	a.exactly("Resize has returned", began, resizeAt+userGrace)
	if declared != usersDeclare && a.stillHold(users) {
		a.Errorf("%d units are declared beside a holder who declares %d", declared, usersDeclare)
	}
	h, err := recipe.Acquire(a.ctx, a.store, new(trying(a.request(driver.Permit, 1, otherDeclares))))
	switch {
	case err == nil:
		if a.stillHold(users) {
			a.Errorf("a client that declares %d units was granted one beside a holder who declares %d", otherDeclares, usersDeclare)
		}
		a.use(h, work, a.room())
		return a.release(h)
	case errors.Is(err, recipe.ErrSize):
		// It joins once more when the time is over, and before that waits for a part of 20 ms that is left to chance.
		if late := time.Since(began) - resizeAt - 2*userGrace; len(a.placed) == 0 && (late < 0 || late >= 20*time.Millisecond) {
			a.Errorf("a Try of another size was refused %v after it should have been", late)
		}
	case errors.Is(err, recipe.ErrLocked) && len(a.placed) > 0:
	default:
		return err
	}
	return nil
}

// resizing notes that a Resize begins, and returns the holds that there are.
func (s *stage) resizing() []*recipe.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resized = resizedTo
	return slices.Clone(s.inside)
}

// stillHold reports whether one of the holds has lasted, and its entry stood in the queue for as long.
func (a *actor) stillHold(holds []*recipe.Hold) bool {
	return a.exact() && slices.ContainsFunc(holds, func(h *recipe.Hold) bool { return h.Err() == nil })
}

// breaksAUnit breaks the lease of the first user, who hears of it after a while.
func (a *actor) breaksAUnit() error {
	began := time.Now()
	a.sleep(breakAt)
	q := recipe.Queue{Store: a.store, Path: playQueue}
	list, held, err := q.List(a.ctx, 0)
	if err != nil || held == 0 {
		return err
	}
	a.name(list[0].Revision, 0)
	err = q.Break(a.ctx, list[0], 0, "it is time", false)
	if len(a.placed) > 0 {
		return nil
	}
	a.exactly("the lease was broken", began, heardAt)
	return err
}
