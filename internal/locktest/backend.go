package locktest

import (
	"testing"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// A Backend is what Run needs to know of a service and its backend. All fields but Guard, Beside, Forgets, Bubble and Case
// are required.
type Backend struct {
	// Open returns another Store on the service, always the same service. Run closes it. Its TTL should be the shortest
	// that is sensible, for some rows wait for it to pass.
	Open func(t *testing.T) *farsync.Store
	// Expire ends the present session of a Store that Open has returned, at the service, as if it had not been renewed. The
	// Store is left to find out by itself.
	Expire func(t *testing.T, store *farsync.Store)
	// Delete removes an entry at the service, as another program with the right to do so may. It returns once the entry is
	// gone.
	Delete func(t *testing.T, e driver.Entry)
	// Foreign appends an entry as another program would that the backend shares its queues with, and returns its Queue and
	// ID. The entry stays until it is deleted.
	Foreign func(t *testing.T, queue string) driver.Entry
	// Stray is Foreign for an entry that no session will ever end.
	Stray func(t *testing.T, queue string) driver.Entry
	// Guard, if not nil, returns a write of the caller's own that the owner guards as it is now. It reports whether it was
	// carried out. It may be called many times, and later.
	Guard func(t *testing.T, owner Owner) (write func() bool)
	// Beside, if not nil, returns what the service keeps for a queue beside its entries, and for entries that are gone.
	// Where it is nil all that the service keeps for an entry is a part of it.
	Beside func(t *testing.T, queue string) []string
	// Forgets says that the service may forget the size of a semaphore that has been used, and whose queue is empty.
	Forgets bool
	// Bubble says that Case runs a row in a bubble of testing/synctest, in which no time passes while anybody works.
	Bubble bool
	// Case, if not nil, runs one row with a t of its making; in a bubble of testing/synctest, say.
	Case func(t *testing.T, run func(t *testing.T))
}

// An Owner is a lease, as the guard of a backend takes it.
type Owner = farsync.Guarded
