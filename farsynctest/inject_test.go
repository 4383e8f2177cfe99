//nolint:forbidigo // time is that of a bubble
package farsynctest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/farsynctest"
	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// plan gives the n-th request of a kind the fault, counted from 1, and all others none.
func plan(kind farsynctest.OpKind, n int, fault farsynctest.Fault) func(farsynctest.Op) farsynctest.Fault {
	return func(op farsynctest.Op) farsynctest.Fault {
		if op.Kind != kind {
			return farsynctest.None
		}
		if n--; n == 0 {
			return fault
		}
		return farsynctest.None
	}
}

func TestFaults(t *testing.T) {
	refusal := errors.New("no")
	for _, row := range []struct {
		name    string
		fault   farsynctest.Fault
		there   bool // at once
		later   bool // after two more requests
		outcome driver.Outcome
		fails   bool
		takes   time.Duration
	}{
		{name: "none", there: true},
		{name: "request lost", fault: farsynctest.LoseRequest, outcome: driver.Unknown, fails: true},
		{name: "reply lost", fault: farsynctest.LoseReply, there: true, outcome: driver.Unknown, fails: true},
		{name: "late", fault: farsynctest.Late(2), later: true, outcome: driver.Unknown, fails: true},
		{name: "late, too late", fault: farsynctest.Late(3), outcome: driver.Unknown, fails: true},
		{name: "late by none", fault: farsynctest.Late(0), there: true, outcome: driver.Unknown, fails: true},
		{name: "refused", fault: farsynctest.Refuse(refusal), outcome: driver.Refused, fails: true},
		{name: "failed", fault: farsynctest.Fail(driver.NotDone, refusal), outcome: driver.NotDone, fails: true},
		{name: "delayed", fault: farsynctest.Delay(time.Second), there: true, takes: time.Second},
		{name: "delayed, too long", fault: farsynctest.Delay(time.Hour), outcome: driver.NotDone, fails: true, takes: time.Minute},
		{name: "silence", fault: farsynctest.Silence(false), outcome: driver.Unknown, fails: true, takes: time.Minute},
		{name: "silence after", fault: farsynctest.Silence(true), there: true, outcome: driver.Unknown, fails: true, takes: time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
				service := m.Service("a")
				s, err := service.Open(t.Context(), time.Hour)
				require.NoError(t, err)
				m.SetFault(plan(farsynctest.Create, 1, row.fault))
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = s.Create(ctx, entry(s, "/q"), 0)
				require.Equal(t, row.takes, time.Since(began))
				require.Equal(t, row.fails, err != nil, err)
				if row.fails {
					require.Equal(t, row.outcome, service.Outcome(err))
					require.ErrorIs(t, err, farsynctest.ErrInjected)
				}
				require.Equal(t, row.there, len(m.Entries("/q")) == 1)
				for n := range 2 {
					require.Equal(t, row.there, len(m.Entries("/q")) == 1, n)
					_, err = s.List(t.Context(), "/q", 0)
					require.NoError(t, err)
				}
				require.Equal(t, row.there || row.later, len(m.Entries("/q")) == 1)
				require.NoError(t, s.Close(t.Context()))
				_, err = service.Open(t.Context(), time.Second)
				require.NoError(t, err)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Empty(t, m.Entries("/q"), "a late request goes with its session")
				require.NoError(t, service.Close())
			})
		})
	}
}

func TestRefusedRequestWrapsTheReason(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		reason := errors.New("no room")
		service := m.Service("a")
		s := open(t, service)
		m.SetFault(func(farsynctest.Op) farsynctest.Fault { return farsynctest.Refuse(reason) })
		require.ErrorIs(t, s.Renew(t.Context(), nil), reason)
		m.SetFault(nil)
	})
}

func TestLostAnswersDoNotMoveGranted(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		s := open(t, m.Service("a"))
		_, began := s.Granted()
		time.Sleep(time.Second)
		m.SetFault(plan(farsynctest.Renew, 1, farsynctest.LoseReply))
		require.Error(t, s.Renew(t.Context(), nil))
		_, from := s.Granted()
		require.Equal(t, began, from)
		require.NoError(t, s.Renew(t.Context(), nil))
		_, from = s.Granted()
		require.Equal(t, time.Now(), from)
	})
}

func TestLostSessionsRunOut(t *testing.T) {
	for _, fault := range []farsynctest.Fault{
		farsynctest.LoseRequest, farsynctest.LoseReply, farsynctest.Late(1), farsynctest.Late(9),
	} {
		inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
			service := m.Service("a")
			m.SetFault(plan(farsynctest.OpenSession, 1, fault))
			_, err := service.Open(t.Context(), ttl)
			require.Equal(t, driver.Unknown, service.Outcome(err))
			s := open(t, service)
			_, sessions, _ := m.Left()
			require.Equal(t, fault == farsynctest.LoseReply || fault == farsynctest.Late(1), sessions == 2)
			time.Sleep(ttl)
			synctest.Wait()
			require.Equal(t, driver.Expired, service.Outcome(s.Renew(t.Context(), nil)))
			require.NoError(t, service.Close())
		})
	}
}

func TestOpsAreDescribed(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		s := open(t, m.Service("a"))
		var ops []farsynctest.Op
		m.SetFault(func(op farsynctest.Op) farsynctest.Fault {
			ops = append(ops, op)
			return farsynctest.None
		})
		e := entry(s, "/q")
		v, err := s.Create(t.Context(), e, 3)
		require.NoError(t, err)
		_, err = s.Register(t.Context(), "/r")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Watch(ctx, v.Self, []driver.Target{{Entry: v.Self}}, func() {})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []farsynctest.Op{
			{Kind: farsynctest.Create, Queue: "/q", Entry: e.ID, Client: "a", Attempt: 3},
			{Kind: farsynctest.Register, Queue: "/r", Client: "a"},
			{Kind: farsynctest.Watch, Queue: "/q", Entry: v.Self.ID, Client: "a"},
		}, ops)
		m.SetFault(nil)
	})
}

func TestRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, m *farsynctest.Mem) {
		var record farsynctest.Record
		a, b := open(t, record.Wrap(m.Service("a"), "a")), open(t, record.Wrap(m.Service("b"), "b"))
		record.Reset()
		first, second := create(t, a, "/q"), create(t, b, "/q")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := b.Watch(context.Background(), second, []driver.Target{{Entry: first}}, func() {})
			assert.NoError(t, err)
		}()
		synctest.Wait()
		_, _, err := a.Delete(t.Context(), first)
		require.NoError(t, err)
		<-done
		_, err = b.Ahead(t.Context(), first, true)
		require.ErrorIs(t, err, driver.ErrGone)
		require.ElementsMatch(t, []farsynctest.Call{
			{Kind: farsynctest.Create, Client: "a", Queue: "/q", Entry: first.ID},
			{Kind: farsynctest.Create, Client: "b", Queue: "/q", Entry: second.ID, On: []string{first.ID}},
			{Kind: farsynctest.Delete, Client: "a", Queue: "/q", Entry: first.ID},
			{Kind: farsynctest.Watch, Client: "b", Queue: "/q", Entry: second.ID, On: []string{first.ID}},
			{Kind: farsynctest.Ahead, Client: "b", Queue: "/q", Entry: first.ID, Err: driver.ErrGone},
		}, record.Calls())
		require.Equal(t, map[string][]string{second.ID: {first.ID}}, record.Waits())
		require.Equal(t, 2, record.Count(farsynctest.Create))
		require.Equal(t, 5, record.Count())
	})
}
