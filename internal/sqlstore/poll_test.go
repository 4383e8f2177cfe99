package sqlstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// states is a database that knows the state of names, and fails while it has none.
type states struct {
	mu sync.Mutex
	of map[string]string
}

func (*states) Write(context.Context, func(Rows) error, string, ...any) error { return nil }
func (*states) Hear(context.Context) error                                    { return nil }

func (s *states) are(of map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = of
}

func (s *states) Read(_ context.Context, f func(Rows) error, _ string, _ ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		return errors.New("no answer")
	}
	list := make(pairs, 0, len(s.of))
	for name, state := range s.of {
		list = append(list, [2]string{name, state})
	}
	return f(&list)
}

type pairs [][2]string

func (p *pairs) Next() bool { return len(*p) > 0 }
func (p *pairs) Err() error { return nil }
func (p *pairs) Scan(into ...any) error {
	for i := range into {
		*into[i].(*string) = (*p)[0][i]
	}
	*p = (*p)[1:]
	return nil
}

// TestPollWakesWhatHasMoved: what is waited for anew is looked at once more, and later only what has another state.
func TestPollWakesWhatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &states{of: map[string]string{"a": "1", "b": "1"}}
		s := NewSession(db, time.Minute)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Poll(time.Millisecond, time.Second)
		}()
		pass := func() {
			<-time.After(time.Minute)
			synctest.Wait()
		}
		a, b := s.Waiters.add([]string{"a"}), s.Waiters.add([]string{"b"})
		pass()
		require.True(t, woken(a) && woken(b), "a change may have come between its look and the first of these")
		pass()
		require.False(t, woken(a) || woken(b))
		db.are(map[string]string{"a": "1", "b": ""})
		pass()
		require.False(t, woken(a))
		require.True(t, woken(b))
		db.are(nil)
		pass()
		require.False(t, woken(a) || woken(b), "what is not known has not moved")
		db.are(map[string]string{"a": "2", "b": ""})
		pass()
		require.True(t, woken(a), "while there was no answer")
		require.False(t, woken(b))
		s.Finish()
		<-done
	})
}
