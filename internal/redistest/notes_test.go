package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
)

// TestWaitersThatGiveUpLeaveNothing: what a lock is held for a week by has no notes of all those that asked for it meanwhile and gave up, of
// whatever kind they were, also if their sessions ended instead.
func TestWaitersThatGiveUpLeaveNothing(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin, holder := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	for _, row := range []struct{ held, waits driver.Kind }{
		{driver.Exclusive, driver.Exclusive}, {driver.Write, driver.Read}, {driver.Write, driver.Write}, {driver.Candidate, driver.Candidate},
		{driver.Exclusive, driver.Permit},
	} {
		queue := "/notes/" + row.waits.String()
		held := create(t, holder, queue, row.held).Self
		noted := func() int64 { return admin.SCard(within(t, soon), prefix+"w:"+held.ID).Val() }
		for ends := range 2 {
			in := openSession(t, server.Endpoint(), time.Hour)
			first, second := create(t, in, queue, row.waits).Self, create(t, in, queue, row.waits).Self
			require.Positive(t, noted(), "%v behind %v", row.waits, row.held)
			if ends == 1 {
				require.NoError(t, in.Close(context.WithoutCancel(t.Context())))
			} else {
				for _, e := range []driver.Entry{first, second} {
					_, found, err := in.Delete(within(t, soon), e)
					require.NoError(t, err)
					require.True(t, found)
				}
			}
			require.Zero(t, noted(), "%v behind %v", row.waits, row.held)
		}
	}
}

// TestObserversLeaveNothing: an entry that is held for a week has no notes of the sessions that watched it and have ended, and a session
// none of the entries that have gone.
func TestObserversLeaveNothing(t *testing.T) {
	t.Parallel()
	server := embedtest.Redis(t)
	admin, holder := newClient(t, server.Endpoint()), openSession(t, server.Endpoint(), time.Hour)
	const many = 300 // more than one script removes
	var held []driver.Entry
	for range many {
		held = append(held, create(t, holder, "/observed", driver.Candidate).Self)
	}
	notes := func() (n int64) {
		for _, key := range admin.Keys(within(t, soon), prefix+"w*:*").Val() {
			n += admin.SCard(within(t, soon), key).Val()
		}
		return n
	}
	joined := notes()
	in := openSession(t, server.Endpoint(), time.Hour)
	watch := func(e driver.Entry) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = in.Watch(ctx, driver.Entry{}, []driver.Target{{Entry: e, What: driver.Changed}}, cancel)
	}
	for _, e := range held {
		watch(e)
	}
	require.Greater(t, notes(), joined)
	require.NoError(t, in.Close(context.WithoutCancel(t.Context())))
	require.Equal(t, joined, notes())

	in = openSession(t, server.Endpoint(), time.Hour)
	last := held[many-1]
	watch(last)
	_, found, err := holder.Delete(within(t, soon), last)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, joined-1, notes(), "its own, and that of what it waited for")
}
