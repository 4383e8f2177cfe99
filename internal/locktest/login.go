package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// A Login is the password of a user, which a test has be wrong, and right again.
type Login struct {
	wrong atomic.Bool
	asked atomic.Int64 // how often the password was asked for while it was wrong
}

// Password returns the password of the moment, for each login anew. The right one is Secret.
func (l *Login) Password() string {
	if l.wrong.Load() {
		l.asked.Add(1)
		return "wrong"
	}
	return Secret
}

// A LetIn is a service that lets in who has the password.
type LetIn struct {
	Service func(t testing.TB, login *Login) driver.Service            // of the user whose password it is
	Open    func(t testing.TB, options farsync.Options) *farsync.Store // by another user
	LogOut  func(t testing.TB)                                         // has the server let the user in anew before it answers
	Says    string                                                     // what the service says of a wrong password
}

// RunLogin has the password be wrong for a while. A session that lives is not refused meanwhile: nothing was carried out, and the next attempt
// may be. So a Lock that waits goes on, and so does a Lock that is called meanwhile. An Open is refused.
func RunLogin(t *testing.T, s LetIn) {
	within := func() context.Context { return Within(t, Soon) }
	login := new(Login)
	service := s.Service(t, login)
	in, err := service.Open(within(), time.Hour)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close(context.WithoutCancel(t.Context())) })
	try := func(call func(ctx context.Context) error) (driver.Outcome, error) {
		ctx := within()
		for {
			err := call(ctx)
			// A connection may break while it is used.
			if outcome := service.Outcome(err); err == nil || outcome != driver.Unknown || ctx.Err() != nil {
				return outcome, err
			}
		}
	}
	look := func() (driver.Outcome, error) {
		return try(func(ctx context.Context) error {
			_, err := in.List(ctx, "/look", 1)
			return err
		})
	}
	login.wrong.Store(true)
	s.LogOut(t)
	outcome, err := look()
	require.ErrorContains(t, err, s.Says)
	require.Equal(t, driver.NotDone, outcome, err)
	outcome, err = try(func(ctx context.Context) error {
		_, err := service.Open(ctx, time.Hour)
		return err
	})
	require.ErrorContains(t, err, s.Says)
	require.Equal(t, driver.Refused, outcome, err)
	login.wrong.Store(false)
	for outcome, err = look(); err != nil; outcome, err = look() {
		require.Equal(t, driver.NotDone, outcome, err)
	}

	store, err := farsync.Open(within(), s.Service(t, login), &farsync.Options{TTL: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	other := s.Open(t, farsync.Options{TTL: time.Hour})
	holder, err := farsync.NewSemaphore(other, "/waits", 1).Acquire(within(), 1)
	require.NoError(t, err)
	calls := make(chan error, 2)
	call := func(path string) {
		ctx := Within(t, 5*Soon)
		go func() { // joined below
			var err error
			for again := true; again && err == nil; again = login.wrong.Load() {
				var lease *farsync.Lease
				if lease, err = farsync.NewSemaphore(store, path, 1).Acquire(ctx, 1); err == nil {
					err = lease.Release()
				}
			}
			calls <- err
		}()
	}
	call("/waits")
	AwaitQueue(t, other, "/waits", 2)
	login.wrong.Store(true)
	call("/joins")
	for most, begun := login.asked.Load()+10, time.Now(); login.asked.Load() < most; {
		s.LogOut(t) // again, for whoever was let in just before
		select {
		case err := <-calls:
			require.Fail(t, "a call has ended while the password was wrong", "%v", err)
		case <-time.After(50 * time.Millisecond):
			require.Less(t, time.Since(begun), Soon, "nobody tries to log in")
		}
	}
	service = s.Service(t, login)
	s.LogOut(t)
	_, err = farsync.Open(within(), service, nil)
	require.ErrorContains(t, err, s.Says)
	require.NotErrorIs(t, err, farsync.ErrUnavailable)
	login.wrong.Store(false)
	require.NoError(t, holder.Release())
	require.NoError(t, errors.Join(Got(t, calls), Got(t, calls)))
	require.Equal(t, farsync.StateConnected, store.State())
}
