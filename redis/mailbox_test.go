package redis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestMailbox: what was published while a request was under way may be about what its answer shows, or about what came
// before. In doubt the caller asks.
func TestMailbox(t *testing.T) {
	gone := driver.Target{Entry: driver.Entry{ID: "m-1", Version: 1}}
	changed := driver.Target{Entry: gone.Entry, What: driver.Changed}
	m := newMailbox()
	require.False(t, m.expects(gone))

	f := m.depart()
	m.land(f, map[string]int64{"m-1": 1})
	require.True(t, m.expects(gone))
	require.True(t, m.expects(changed))
	later := changed
	later.Entry.Version = 2
	require.False(t, m.expects(later), "the server has noted the session for another version")
	m.take("m-1")
	require.False(t, m.expects(gone), "it is told once")

	f = m.depart()
	m.take("m-1")
	m.land(f, map[string]int64{"m-1": 1, "m-2": 1})
	require.False(t, m.expects(gone), "the wake-up was faster than the answer")
	require.True(t, m.expects(driver.Target{Entry: driver.Entry{ID: "m-2"}}))

	f = m.depart()
	m.takeAll()
	m.land(f, map[string]int64{"m-1": 1})
	require.False(t, m.expects(gone), "nothing was heard for a while")
	require.False(t, m.expects(driver.Target{Entry: driver.Entry{ID: "m-2"}}))

	w := &waiter{names: []string{"m-1"}, woken: make(chan struct{}, 1)}
	m.waiters[w] = struct{}{}
	m.take("m-2")
	require.Empty(t, w.woken)
	m.take("m-1")
	m.take("m-1")
	require.Len(t, w.woken, 1)
	require.Empty(t, m.flights)
}
