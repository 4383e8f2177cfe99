package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/farsync/farsync/driver"
)

// A queue belongs to the family of its oldest entry. An entry of another family is refused, and must not disturb the
// others: while it finds out, it stands in the queue for the time of a request or two. So an entry that finds another
// family ahead of it does not know yet which of the two is at home. It looks at the oldest entry of all, and if that is of
// its own family, it waits for the intruder as for anything else that blocks.

const (
	// leaveGrace is how long a refused call waits, outside of the queue and for a third of the TTL at most, for the
	// conflicting entry to leave before it returns the error. The head may be of another family and an intruder itself,
	// whose predecessors have gone just now; an entry that has declared another size may be the last that does.
	leaveGrace = time.Second
	// leaveTimes times the duration of the call's own requests is the least grace: the requests of others take as long.
	leaveTimes = 8
	// mostGraces bounds the time of a call, in such times. It is given one for each entry that it finds in its way: entries that declare the
	// same new size leave and come back, one after the other, and on a busy machine that takes long.
	mostGraces = 5
)

// A grace is the time that is left to a call which is refused. It follows how slow the service has become: a request of
// the call is timed before each decision that the time is over.
type grace struct {
	of           string        // the ID of the entry for which it is
	took         time.Duration // the longest time of the call's own requests
	first, since time.Time     // when the call was refused first, and first for of
}

// saw notes how long requests of the call have taken, since a time.
func (g *grace) saw(since time.Time) { g.took = max(g.took, time.Since(since)) }

// until returns when the grace ends, if a call is refused for an entry now.
func (g *grace) until(s *Store, of string) time.Time {
	now := time.Now()
	if g.first.IsZero() {
		g.first = now
	}
	if g.since.IsZero() || g.of != of {
		g.of, g.since = of, now
	}
	leave := min(max(leaveGrace, leaveTimes*g.took), s.options.TTL/3)
	ends, last := g.since.Add(leave), g.first.Add(mostGraces*leave)
	if ends.After(last) {
		return last
	}
	return ends
}

// A kindError says which entry makes a queue another family's.
type kindError struct {
	head driver.Entry
	kind driver.Kind // of the entry that is refused
}

func (e *kindError) Error() string {
	return fmt.Sprintf("%v: %s has it as %s, and this call asks for %s: take another path, or the same kind",
		driver.ErrKind, describe(e.head), Primitive(e.head.Kind), Primitive(e.kind))
}

func (e *kindError) Unwrap() error { return driver.ErrKind }

func (e *kindError) aheadOf() string { return wordsOf(e.head).holder }

// Primitive says, for an error, to which primitive entries of a kind belong.
func Primitive(k driver.Kind) string {
	switch k {
	case driver.Exclusive:
		return "a mutex"
	case driver.Read, driver.Write:
		return "a read/write lock"
	case driver.Permit:
		return "a semaphore"
	case driver.Candidate:
		return "an election"
	default:
		return "a lock of another program"
	}
}

// mixed reports whether an entry of kind k is refused behind one of the list.
func mixed(k driver.Kind, list []driver.Entry) bool {
	for i := range list { // an entry is large to copy
		if apart(k, list[i].Kind) {
			return true
		}
	}
	return false
}

// checkKind returns a kindError if the queue of e belongs to another family. v is what is ahead of e. Only if another
// family is among that, the oldest entry is asked for.
func (s *Store) checkKind(ctx context.Context, in *session, e driver.Entry, v driver.View) verdict {
	for {
		if !mixed(e.Kind, v.Entries) {
			return verdict{fate: done}
		}
		if !v.All {
			var got verdict
			if v, got = s.ahead(ctx, in, e, false); got.fate != done {
				return got
			}
		}
		if len(v.Entries) == 0 || !apart(e.Kind, v.Entries[0].Kind) {
			return verdict{fate: done}
		}
		head := v.Entries[0]
		if len(head.Value) > 0 {
			return verdict{fate: not, err: &kindError{head, e.Kind}}
		}
		// For its holder's name; and a look may show for a moment what is gone, which this read does not.
		found, got := s.find(ctx, in, head)
		switch {
		case got.fate == done:
			found.Kind = head.Kind
			return verdict{fate: not, err: &kindError{found, e.Kind}}
		case !errors.Is(got.err, driver.ErrGone):
			return got
		}
		v.Entries, v.All = v.Entries[:1], false
	}
}

// find reads an entry.
func (s *Store) find(ctx context.Context, in *session, e driver.Entry) (found driver.Entry, got verdict) {
	got = s.try(ctx, in, func(ctx context.Context, _ int) (err error) {
		found, err = in.Session.Find(ctx, e)
		return err
	})
	return found, got
}

// outwait waits until the entry for which a call was refused may have gone, or the size, and reports whether the call may join again.
// The grace of a call begins with its first refusal, and is the same for all heads of other families. A watch that is refused does not end it.
//
// Where the time ends without a word, a request is timed before that counts: the service may be slower by now than when
// the call was refused, and then the time is longer. After another size the call joins once more. After another family
// it reads the head, and stands in no other's way.
func (s *Store) outwait(ctx context.Context, refused error, g *grace) bool {
	var on []driver.Target
	var of string
	kind, mixed := errors.AsType[*kindError](refused)
	if mixed {
		on = []driver.Target{{Entry: kind.head}}
	} else if size, ok := errors.AsType[*otherSizeError](refused); ok {
		on = size.on
		of = on[len(on)-1].Entry.ID
	} else {
		return false
	}
	for {
		ends := g.until(s, of)
		if !time.Now().Before(ends) {
			return false
		}
		bound, cancel := context.WithDeadline(ctx, ends)
		err := Queue{s, on[0].Entry.Queue}.wait(bound, on)
		if err != nil {
			_ = pauseIn(bound, s.life, s.options.TTL) // longer than the bound
		}
		over := bound.Err() != nil
		cancel()
		if !over || !mixed || ctx.Err() != nil || !s.stays(ctx, kind.head, g) {
			return ctx.Err() == nil
		}
	}
}

// stays reports whether an entry is still there, as far as the service says within the longest grace.
func (s *Store) stays(ctx context.Context, e driver.Entry, g *grace) bool {
	ctx, cancel := context.WithTimeout(ctx, s.options.TTL/3)
	defer cancel()
	asked := time.Now()
	err := s.inSession(ctx, func(in *session) verdict {
		_, got := s.find(ctx, in, e)
		return got
	})
	g.saw(asked)
	return !errors.Is(err, driver.ErrGone)
}

// outwaited reports whether err answers all callers of a line: a head of another family has been given the time to leave, and stayed, for it
// is not on its way out; or a service that can be replaced has had its time, which callers one after another would give it again. A caller
// whose ctx has ended has not waited for so long.
func outwaited(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (errors.Is(err, driver.ErrKind) || errors.Is(err, errOverdue))
}
