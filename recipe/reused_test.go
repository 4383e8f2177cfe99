//nolint:forbidigo // time is that of a bubble
package recipe_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/recipe"
)

// A reuser is a service whose sessions return an ID again as soon as the service has answered that its entry is gone,
// as etcd's do. The entries have the very ID that was drawn.
type reuser struct {
	driver.Service
	free  []string
	freed func() // called then, before Delete returns; nil for nothing
}

func (r *reuser) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	in, err := r.Service.Open(ctx, ttl)
	return reuserSession{in, r}, err
}

type reuserSession struct {
	driver.Session
	of *reuser
}

func (s reuserSession) NewID(queue string, k driver.Kind, units int64) string {
	if n := len(s.of.free); n > 0 {
		id := s.of.free[n-1]
		s.of.free = s.of.free[:n-1]
		return id
	}
	return s.Session.NewID(queue, k, units)
}

func (s reuserSession) Create(ctx context.Context, e driver.Entry, attempt int) (driver.View, error) {
	v, err := s.Session.Create(ctx, e, attempt)
	v.Self.ID = e.ID
	return v, err
}

func (s reuserSession) Owned(ctx context.Context, queues []string) ([]driver.Entry, error) {
	list, err := s.Session.Owned(ctx, queues)
	for i, e := range list {
		list[i].ID = strings.TrimRight(e.ID, "0123456789")
	}
	return list, err
}

func (s reuserSession) Delete(ctx context.Context, e driver.Entry) (driver.View, bool, error) {
	v, found, err := s.Session.Delete(ctx, e)
	s.of.free = append(s.of.free, e.ID)
	if f := s.of.freed; f != nil {
		s.of.freed = nil
		f()
	}
	return v, found, err
}

// reusing returns a Store on a reuser.
func (w *world) reusing() (*recipe.Store, *reuser) {
	r := &reuser{Service: w.Service("reuser")}
	s, err := recipe.Open(w.Context(), r, recipe.Options{TTL: ttl})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, s.Close()) })
	return s, r
}

// TestEntryWithAReusedIDIsNotForgotten: its ID was drawn before the entry that had the ID before was forgotten.
func TestEntryWithAReusedIDIsNotForgotten(t *testing.T) {
	inBubble(t, func(w *world) {
		s, r := w.reusing()
		first := w.granted(w.start(s))
		var second *try
		r.freed = func() {
			require.Len(w, r.free, 1)
			second = w.start(s)
			w.settle()
		}
		w.release(first)
		w.granted(second)
		require.Empty(w, r.free)
		w.history()
		time.Sleep(5 * ttl)
		require.NoError(w, second.hold.Err())
		require.Len(w, w.Entries(queue), 1)
		w.release(second)
		w.settle()
		require.Zero(w, s.Made())
	})
}

// TestIDThatStoodAgainIsNotDrawn: its entry is deleted, and an attempt to do so may come late.
func TestIDThatStoodAgainIsNotDrawn(t *testing.T) {
	inBubble(t, func(w *world) {
		s, r := w.reusing()
		first := w.granted(w.start(s))
		e := w.shown(s, queue)
		w.release(first)
		require.Len(w, r.free, 1)
		id := r.free[0]
		w.Revive(e)
		time.Sleep(ttl)
		require.Empty(w, w.Entries(queue))
		second := w.granted(w.start(s))
		require.NotContains(w, w.shown(s, queue).ID, id)
		w.release(second)
	})
}
