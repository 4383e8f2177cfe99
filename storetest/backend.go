package storetest

import (
	"testing"

	"github.com/farsync/farsync/recipe"
)

// A Client is a recipe.Store as a backend's Open returns it.
type Client interface {
	recipe.Store
	// Close ends the session with ErrClosed, and every call in flight and to come: they return ErrClosed. It removes the
	// client's entries, and returns when nothing that the client started is running. A second call does nothing.
	Close() error
}

// A Backend is what Run needs to know of a backend. All fields but Case are required.
type Backend struct {
	// Open returns another client of the service, always the same service. Run closes it. Its TTL should be the
	// shortest that is sensible, for some cases wait for it to pass.
	Open func(t *testing.T) Client
	// Expire ends the present session of a client at the service, as if it had not been renewed. The client must be
	// left to find out by itself.
	Expire func(t *testing.T, c Client)
	// Delete removes an entry at the service, as a stranger with the right to do so may do. It returns once it is gone.
	Delete func(t *testing.T, e recipe.Entry)
	// Foreign appends an entry as another program would that the backend shares its queues with, alive until it is
	// deleted, and returns its Queue and ID.
	Foreign func(t *testing.T, queue string) recipe.Entry
	// Stray is Foreign for an entry that no session will ever end.
	Stray func(t *testing.T, queue string) recipe.Entry
	// Case, if not nil, runs one case with a t of its making; in a bubble of testing/synctest, say.
	Case func(t *testing.T, run func(t *testing.T))
}
