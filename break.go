package farsync

import (
	"context"
	"fmt"

	"github.com/farsync/farsync/recipe"
)

// BreakOptions change what Store.Break does. The zero value is for holders that hear.
type BreakOptions struct {
	// Reason is shown to the holder and in the logs, on one line. Of more than 256 bytes the rest is cut off, and each
	// character that is not printable becomes a space.
	Reason string
	// Remove removes the entry at once in place of asking its Store to end the lease. It is for holders that do not
	// hear: other programs' (etcdctl, Curator), and processes that are stuck altogether. Their holder is not told by
	// farsync, and may work on beside the next one. The Store of a farsync holder finds that the entry has gone and
	// ends the lease: a moment later if the lease has been held for 3 seconds, or a third of the TTL if that is less;
	// otherwise when it gets that old, or at its Release. So it is, too, where a person removes the entry with a tool
	// of the service. Where a person changes the entry with such a tool, the queue or the kind that it names for example, the
	// holder is told when it next looks at its queue, 48 seconds later at most. As nobody is asked, the entry goes with whichever lease holds on it by then: callers of one Store
	// may have handed it on since the token was seen.
	Remove bool
}

// Break ends the lease on path that has the token, of a mutex, a reader, a permit or a leader in any process, and
// returns nil once its entry is gone, so that the next in the queue holds. Participants shows tokens. As the token
// names one lease, Break never ends a lease that was acquired after you looked: also where callers of one Store hand
// on one entry, the holder's Store ends that lease or none. Goroutines that read share their entry, and are one lease
// to others: Break ends them together, by the token of any of them.
//
// The holder's Store ends the lease first: its Done is closed, and its Err wraps ErrLost and ErrBroken and names the
// client that has broken it, and the reason. Then it removes the entry. So the contexts of the old lease are done
// before another client holds, as after any loss. A Store hears from a lease that has been held for 4.5 seconds, or
// half of the TTL if that is less; a younger lease ends when it is that old, at the latest. A lease that was asked for before and
// goes on hears within 10 seconds, or a third of the TTL if that is less. There is no need to break the lease of a
// process that is dead: it ends by itself, a TTL after the last renewal.
//
// ErrReleased: no holder has that token (any more); the zero Token belongs to no lease. If another lease holds on the
// same entry by now, the text has its token. ErrUnavailable alone: the service grants nothing after a restart, and has
// forgotten who held before. ErrPath comes at once. The other errors are ErrClosed, what the service said when it
// refused, errors.ErrUnsupported of a store that reaches no holder, and an error that names an entry which belongs to no
// session: such an entry can only be removed.
//
// ctx governs how long Break waits, for the service and for the holder's Store. When ctx is done the error wraps
// ctx.Err(). The holder may have been asked by then, and may end the lease later: Participants shows whether it has.
// A client that may lock path may break a lease on it. A nil *BreakOptions is the zero BreakOptions.
func (s *Store) Break(ctx context.Context, path string, token Token, o *BreakOptions) error {
	if o == nil {
		o = &BreakOptions{}
	}
	return wrap("break", path, s.breakLease(ctx, path, token, *o))
}

func (s *Store) breakLease(ctx context.Context, path string, token Token, o BreakOptions) error {
	queue := recipe.Queue{Store: s.below, Path: path}
	entries, held, err := queue.List(ctx, 0)
	if err != nil {
		return err
	}
	for _, e := range entries[:held] {
		// An entry that another program has written may have a revision that no token has: it is named by none.
		if token > 0 && tokenOf(e) > 0 && e.Revision == token.Revision() {
			return queue.Break(ctx, e, token.turn(), o.Reason, o.Remove)
		}
	}
	if quiet := recipe.SilenceOf(s.below); quiet != nil {
		return quiet // who held before is not known any more
	}
	return fmt.Errorf("%w: no holder has token %d", ErrReleased, token)
}
