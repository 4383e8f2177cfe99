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
