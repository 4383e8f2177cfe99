package live

import (
	"strings"
	"time"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/deadlock"
)

type (
	deadlockJSON struct {
		// Since is when it was first seen.
		Since int64 `json:"since"`
		// Steps are such that none can go before the next has gone, and the last not before the first.
		Steps []stepJSON `json:"steps"`
	}
	stepJSON struct {
		Store  string        `json:"store"`
		Path   string        `json:"path"`
		Holder string        `json:"holder"`
		Held   bool          `json:"held"`
		Kind   string        `json:"kind"`
		Token  farsync.Token `json:"token"`
		ID     string        `json:"id"`
	}
)

// alarms are the cycles that the last survey has shown, by the IDs of their entries, and since when each of the surveys
// has.
type alarms map[string]time.Time

// steady is how long a cycle has to be seen before it is shown. A survey reads one queue after the other: what it shows
// of two of them may never have been so at one time. An entry that waits never comes back once it is gone, so what two
// surveys show alike, and as a cycle in both, has stood in between. A Store that does not answer shows nothing twice:
// its locks come from the same survey again.
const steady = 2 * time.Second

// raise returns the cycles that have been seen for long enough, by when each Store was seen last.
func (a alarms) raise(seen map[string]time.Time, locks []lockJSON) []deadlockJSON {
	queues := make([]deadlock.Queue, len(locks))
	for i, lock := range locks {
		queues[i] = queueOf(lock)
	}
	raised, found := []deadlockJSON{}, map[string]bool{}
	for _, cycle := range deadlock.Cycles(queues) {
		steps, ids := make([]stepJSON, len(cycle)), make([]string, len(cycle))
		var first, last time.Time // when the first, and the last, of its Stores was seen
		for i, at := range cycle {
			lock, p := locks[at.Queue], locks[at.Queue].Participants[at.Entry]
			steps[i] = stepJSON{lock.Store, lock.Path, p.Holder, p.Held, p.Kind, p.Token, p.ID}
			ids[i] = p.ID
			when := seen[lock.Store]
			if i == 0 || when.Before(first) {
				first = when
			}
			if when.After(last) {
				last = when
			}
		}
		key := strings.Join(ids, "\n")
		found[key] = true
		if a[key].IsZero() {
			a[key] = last
		}
		if first.Sub(a[key]) >= steady {
			raised = append(raised, deadlockJSON{a[key].UnixMilli(), steps})
		}
	}
	for key := range a {
		if !found[key] {
			delete(a, key)
		}
	}
	return raised
}

func queueOf(lock lockJSON) deadlock.Queue {
	q := deadlock.Queue{Path: lock.Path, Size: lock.Size, Entries: make([]deadlock.Entry, len(lock.Participants))}
	for i, p := range lock.Participants {
		q.Entries[i] = deadlock.Entry{ID: p.ID, Kind: driver.Kind(p.kind), Units: p.Units, Under: p.Under}
	}
	return q
}
