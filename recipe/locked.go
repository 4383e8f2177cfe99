package recipe

import (
	"errors"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/legible"
)

// A lockedError is ErrLocked, with what a Try has seen of who is in the way.
type lockedError struct {
	how  string // stands in front of the name
	by   driver.Entry
	left string // what is known of by if an earlier session of the Store has left it
}

func (e *lockedError) Error() string {
	name := e.left
	if name == "" {
		name = nameOf(e.by)
	}
	return ErrLocked.Error() + ": " + e.how + " " + name
}

func (e *lockedError) Unwrap() error { return ErrLocked }

func (e *lockedError) aheadOf() string {
	if e.left != "" {
		return ""
	}
	return wordsOf(e.by).holder
}

// A waitingError says what a call has waited for. The error that the call returns has it in its text, and not in its chain.
type waitingError struct {
	behind string // for people
	holder string // "" if it is not known
}

func (e *waitingError) Error() string { return "waiting behind " + e.behind }

// behindOwn is what a call has waited for while another goroutine of its Store held.
func (s *Store) behindOwn() error {
	return &waitingError{"another goroutine of this process", s.options.Holder}
}

// A keptError is the error of a call that was given up while it waited for a holder.
type keptError struct {
	error
	holder string // "" if it is not known
}

func (e *keptError) Unwrap() error { return e.error }

func (e *keptError) aheadOf() string { return e.holder }

// Waited reports whether err is the error of a call that was given up while it waited for a holder, or for another waiter.
func Waited(err error) bool {
	_, waited := errors.AsType[*keptError](err)
	return waited
}

// HolderOf returns who was ahead of the call that has failed with err, as WordsOf has the holder; "" if that is not
// known. The answer to the call has shown it: nothing is asked. The errors that err wraps are not looked at, for the
// cause of a ctx may be the error of another lock.
func HolderOf(err error) string {
	if e, ok := err.(interface{ aheadOf() string }); ok {
		return e.aheadOf()
	}
	return ""
}

// nameOf names an entry for people: by its holder, or by what the service calls it, where the read that has shown it
// does not tell. It may be an entry of a driver's making, which has no name.
func nameOf(e driver.Entry) string {
	if len(e.Value) == 0 {
		return "entry " + legible.Quote(e.ID)
	}
	return legible.Quote(wordsOf(e).holder)
}

// lockedBy is the error of a Try of that kind which a look has shown to be blocked. ErrLocked alone says that the units
// are not free where the service counts them, and shows none of those who have them.
func lockedBy(k driver.Kind, blockers []driver.Entry, v driver.View) error {
	by, how := v.Entries[0], "held by" // the oldest of a queue holds
	switch {
	case k == driver.Permit && !v.All:
		return ErrLocked
	case k != driver.Read:
	case !v.All:
		by, how = blockers[0], "behind"
	case blockers[0].ID != by.ID: // readers hold, and a writer waits for them
		by, how = blockers[0], "waited for by"
	}
	return &lockedError{how: how, by: by}
}

// lockedBehind is the error of a Try in whose way a caller of this process is, who waits as w.
func (in *session) lockedBehind(w *waiting) error {
	by := in.awaited(w)
	return &lockedError{"waited for in this process, behind", by, in.ofEarlier(by)}
}

// waitedFor is lockedBehind where it is not known what the caller waits for.
func waitedFor(s *Store) error {
	return &lockedError{how: "waited for in this process, by", by: driver.Entry{Value: []byte(s.options.Holder)}}
}

// locked is the error of a Try that a goroutine of this process is in the way of.
func (c *cohort) locked() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, gr := range c.grants {
		if gr.kept() {
			return &lockedError{how: "held in this process, by", by: gr.place.Load().entry}
		}
	}
	for _, gr := range c.grants {
		if w := gr.waits.Load(); w != nil {
			return w.place.in.lockedBehind(w)
		}
	}
	return waitedFor(c.store)
}
