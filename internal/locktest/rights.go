package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Restricted is a service whose operator takes a user's rights away, and gives them back.
type Restricted struct {
	// Open opens a Store of the user, or of a user who keeps all rights.
	Open       func(t testing.TB, user bool, options farsync.Options) *farsync.Store
	Take, Give func(t testing.TB)
	Says       string // what the service says of a right that is missing
}

// RunRights takes the rights away from a user who holds locks and waits for others, until the Store has noticed. Calls fail meanwhile, and
// say why. A lease that is renewed in time is kept, and what could not be removed is removed once it may be.
func RunRights(t *testing.T, s Restricted) {
	const ttl = 20 * time.Second // some 15 seconds are left of it when the Store has noticed
	var states States
	store, other := s.Open(t, true, farsync.Options{TTL: ttl, OnState: states.Hook}), s.Open(t, false, farsync.Options{TTL: ttl})
	kept, left := Lock(t, store, "/kept"), Lock(t, store, "/left")
	behind := LockBehind(t, other, "/left")
	theirs := Lock(t, other, "/theirs")
	waited := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store, "/theirs").Lock(Within(t, Soon))
		waited <- err
	}()
	AwaitQueue(t, other, "/left", 2)
	AwaitQueue(t, other, "/theirs", 2)
	states.Await(t, farsync.StateConnected)

	denied := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, s.Says)
		require.NotErrorIs(t, err, farsync.ErrUnavailable, "the service has answered")
		require.NotErrorIs(t, err, farsync.ErrLost)
	}
	s.Take(t)
	_, err := farsync.NewMutex(store, "/free").Lock(Within(t, Soon))
	denied(err)
	denied(left.Release())
	require.NoError(t, theirs.Release())
	denied(Got(t, waited))
	states.Await(t, farsync.StateConnected, farsync.StateSuspended)
	s.Give(t)

	states.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateConnected)
	for _, path := range []string{"/free", "/theirs"} {
		require.NoError(t, Lock(t, other, path).Release())
		require.NoError(t, Lock(t, store, path).Release())
	}
	require.NoError(t, Got(t, behind).Release())
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
}
