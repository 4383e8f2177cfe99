//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

var errCause = errors.New("the cause")

func TestSessionEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := recipe.NewSession(10*time.Second, began.Add(9*time.Second))
		time.Sleep(4 * time.Second)
		require.True(t, s.Extend(began.Add(13*time.Second)))
		require.True(t, s.Extend(began.Add(11*time.Second)), "an earlier deadline changes nothing")
		require.Equal(t, began.Add(13*time.Second), s.Deadline())
		require.NoError(t, s.Err())
		<-s.Done()
		require.Equal(t, 13*time.Second, time.Since(began))
		require.ErrorIs(t, s.Err(), recipe.ErrLost)
		require.False(t, s.Extend(began.Add(time.Hour)), "a session never comes back")
		require.ErrorIs(t, s.Err(), recipe.ErrLost)
	})
}

func TestSessionThatIsBornTooLate(t *testing.T) {
	for range 100 {
		s := recipe.NewSession(time.Second, time.Now().Add(-time.Second))
		require.ErrorIs(t, s.Err(), recipe.ErrLost)
		<-s.Done()
	}
}

func TestSessionKeepsItsFirstCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recipe.NewSession(10*time.Second, time.Now().Add(9*time.Second))
		s.End(errCause)
		s.End(recipe.ErrClosed)
		require.ErrorIs(t, s.Err(), recipe.ErrLost)
		require.ErrorIs(t, s.Err(), errCause)
		require.NotErrorIs(t, s.Err(), recipe.ErrClosed)

		s = recipe.NewSession(10*time.Second, time.Now().Add(9*time.Second))
		s.End(recipe.ErrClosed)
		require.Equal(t, recipe.ErrClosed, s.Err())
		require.False(t, s.Extend(time.Now().Add(time.Minute)))
	})
}

func TestSessionBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recipe.NewSession(10*time.Second, time.Now().Add(9*time.Second))
		bound, cancel := s.Bind(t.Context())
		cancel()
		require.ErrorIs(t, bound.Err(), context.Canceled)
		require.NoError(t, s.Err(), "the session is not the context's")

		bound, cancel = s.Bind(t.Context())
		defer cancel()
		s.End(errCause)
		<-bound.Done()
		require.ErrorIs(t, context.Cause(bound), errCause)
	})
}
