package drivertest

import (
	"testing"
	"time"

	"github.com/farsync/farsync/driver"
)

// A Backend is what the suites need to know of a backend. All fields are required that are not said to be optional.
type Backend struct {
	// Open returns a driver for another client of the service, always the same service. The suite closes it.
	Open func(t *testing.T) driver.Service
	// TTL is what sessions are opened with. It should be the shortest that is sensible, for some cases wait for it to pass.
	TTL time.Duration
	// Expire ends a session at the service, as if it had not been renewed. The driver must be left to find out by itself.
	// If the service has no other way to name the session, create an entry in it, and see which session that belongs to.
	Expire func(t *testing.T, s driver.Session)
	// Delete removes an entry at the service, as an administrator may do. It returns once the entry is gone.
	Delete func(t *testing.T, e driver.Entry)
	// Foreign appends an entry as another program does that the backend shares its queues with, alive until it is deleted,
	// and returns it with its Queue and ID.
	Foreign func(t *testing.T, queue string) driver.Entry
	// Stray is Foreign for an entry that no session will ever end. Optional: leave it out if the service has no such
	// entries.
	Stray func(t *testing.T, queue string) driver.Entry
	// Cut has the service fall silent for the driver that Open returned, or ends the silence: nothing arrives at either
	// end, and no connection breaks. Optional.
	Cut func(t *testing.T, service driver.Service, silent bool)
	// Ordered is true if a request of a session is never carried out after a later one of the same session, whatever
	// breaks between them.
	Ordered bool
	// Case runs one case with a t of its making; in a bubble of testing/synctest, say. Optional.
	Case func(t *testing.T, run func(t *testing.T))
}
