package redis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
)

// TestMailbox: what was published while a request was under way may be about what its answer shows, or about what came
// before. In doubt the ear of the look is woken, and the caller looks again.
func TestMailbox(t *testing.T) {
	seen := driver.Entry{ID: "m-1", Version: 1}
	v := driver.View{Self: driver.Entry{ID: "m-2", Queue: "/q"}, Entries: []driver.Entry{seen}}
	m := newMailbox()
	require.Nil(t, m.take("m-2"))
	require.False(t, (*ear)(nil).hears(nil), "there was no look")

	in := m.listen("m-2")
	m.publish("m-2") // faster than the answer
	m.put(in, v)
	in = m.take("m-2")
	require.Nil(t, m.take("m-2"), "a look is good for one Watch")
	require.Len(t, in.woken, 1)
	require.True(t, in.hears([]driver.Target{{Entry: seen}, {Entry: driver.Entry{Queue: "/q"}, What: driver.Registered}}))
	for _, other := range []driver.Target{
		{Entry: driver.Entry{ID: "m-1", Version: 2}, What: driver.Changed},
		{Entry: driver.Entry{ID: "m-3", Version: 1}},
		{Entry: seen, What: driver.Told},
		{Entry: driver.Entry{Queue: "/q", Version: 1}, What: driver.Registered},
		{Entry: driver.Entry{Queue: "/q"}, What: driver.Joined},
	} {
		require.False(t, in.hears([]driver.Target{{Entry: seen}, other}), other)
	}

	second := m.listen("m-2", "size:/q")
	<-in.woken
	m.publish("size:/q")
	m.publish("size:/q")
	require.Empty(t, in.woken)
	require.Len(t, second.woken, 1)
	m.publish("") // of the session itself
	require.Len(t, in.woken, 1)
	m.hush(in)
	m.hush(second)
	m.hush(nil)
	require.Empty(t, m.ears)
	require.Empty(t, m.looks)
}
