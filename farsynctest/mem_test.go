//nolint:forbidigo // time is that of a bubble
package farsynctest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
)

const ttl = 10 * time.Second

func inBubble(t *testing.T, f func(t *testing.T, m *farsynctest.Mem)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := farsynctest.NewMem()
		t.Cleanup(func() {
			entries, sessions, watches := m.Left()
			require.Zero(t, entries+sessions+watches, "left at the service")
		})
		f(t, m)
	})
}

func open(t *testing.T, service driver.Service) driver.Session {
	t.Helper()
	s, err := service.Open(t.Context(), ttl)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s
}

func create(t *testing.T, s driver.Session, queue string) driver.Entry {
	t.Helper()
	v, err := s.Create(t.Context(), entry(s, queue), 0)
	require.NoError(t, err)
	return v.Self
}

func entry(s driver.Session, queue string) driver.Entry {
	return driver.Entry{
		Queue: queue, ID: s.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1, Value: []byte("test"),
	}
}

func TestMemEndsASessionAfterItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		service := m.Service("a")
		s := open(t, service)
		create(t, s, "/q")
		time.Sleep(ttl / 2)
		require.NoError(t, s.Renew(t.Context(), nil))
		time.Sleep(ttl - 1)
		require.Len(t, m.Entries("/q"), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Empty(t, m.Entries("/q"))
		require.Equal(t, driver.Expired, service.Outcome(s.Renew(t.Context(), nil)))
	})
}

func TestMemGrantsFromTheSending(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		m.SetLatency(time.Second)
		began := time.Now()
		s := open(t, m.Service("a"))
		require.Equal(t, 2*time.Second, time.Since(began))
		_, from := s.Granted()
		require.Equal(t, began, from)
		began = time.Now()
		require.NoError(t, s.Renew(t.Context(), nil))
		_, from = s.Granted()
		require.Equal(t, began, from)
	})
}

func TestMemPartition(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		service := m.Service("b")
		a, b := open(t, m.Service("a")), open(t, service)
		e := create(t, a, "/q")
		var waited time.Time
		go func() {
			_, _ = b.Watch(context.Background(), driver.Entry{}, []driver.Target{{Entry: e}}, func() {})
			waited = time.Now()
		}()
		synctest.Wait()
		m.PartitionClient("b", true)
		_, found, err := a.Delete(t.Context(), e)
		require.NoError(t, err)
		require.True(t, found)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.List(ctx, "/q", 0)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, driver.Unknown, service.Outcome(err))
		_, err = b.List(ctx, "/q", 0)
		require.Equal(t, driver.NotDone, service.Outcome(err))
		require.True(t, waited.IsZero(), "no event passes")
		m.PartitionClient("b", false)
		synctest.Wait()
		require.Equal(t, time.Now(), waited)
	})
}

func TestMemExpiresClientsByName(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		create(t, open(t, m.Service("a")), "/q")
		b := open(t, m.Service("b"))
		other := create(t, b, "/q")
		other.Session = b.Name()
		m.ExpireClient("a")
		require.Equal(t, []driver.Entry{other}, m.Entries("/q"))
	})
}
