package farsync

import (
	"cmp"
	"context"
	"iter"

	"github.com/farsync/farsync/recipe"
)

// A LockInfo is a path with its users, as Store.Survey has found it: a mutex, a read/write lock, a semaphore or an
// election.
type LockInfo struct {
	// Path is what the primitive was made with.
	Path string
	// Size is how many units a semaphore has, 0 for all others, and where it is not known.
	Size int64
	// Err says what another program has done to the queue. It has written something else in the place of the size of a
	// semaphore: that grants no units until the size has been put right. Which of its participants hold cannot be
	// told, and the waiters leave: all are shown as holders. Or it has put an entry into the queue that no session
	// will ever remove, as Participants says: the entry is among the participants, and nobody gets the lock until it
	// is deleted. Or it has put an entry ahead of entries that were there before: all who may hold are shown as
	// holders. Or the path may not be read by this client, and there are no Participants; the service may have no lock
	// there.
	Err error
	// Participants are its holders and its waiters, the holders first, the others in order. There is at least one, unless
	// Err says that the path may not be read.
	Participants []Participant
}

// Survey yields every path that begins with prefix and has a holder or a waiter, in the order of their paths. An empty
// prefix, or "/", stands for all. Data that other programs keep in the service is not shown, but for clients of other
// programs that stand in a queue with farsync's.
//
// It reads page by page, in each a few hundred participants, and is no picture of one moment: what was asked for first
// is older than the rest. Never decide by it that a lock is held or free. The service is asked while the caller ranges
// over the result, and not before.
//
// ctx governs how long Survey waits for the service. An error is the last thing that is yielded, with the zero
// LockInfo. It wraps ErrPath if no path can begin with prefix, one without a leading slash for example;
// errors.ErrUnsupported if the Store cannot list its paths; ErrClosed; ctx.Err() if ctx was done first, and then
// ErrUnavailable too if the service did not answer; or it is what the service said when it refused.
func (s *Store) Survey(ctx context.Context, prefix string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		below := prefix
		if prefix == "/" {
			below = ""
		}
		err := recipe.CheckPrefix(prefix)
		if err == nil {
			err = recipe.Survey(ctx, s.below, below, func(path string, l recipe.Listing) bool {
				return yield(LockInfo{Path: path, Size: l.Size, Err: wrongIn(l), Participants: s.participantsOf(l.Entries, l.Held)}, nil)
			})
		}
		if err != nil {
			yield(LockInfo{}, wrap("survey", cmp.Or(prefix, "/"), err))
		}
	}
}
