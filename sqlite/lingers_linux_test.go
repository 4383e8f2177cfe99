package sqlite

import (
	"encoding/binary"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/machine"
)

// TestWaiterBehindADeadProcessThatLingersWritesNothing: the process has asked to outlast its end, and ended. Whoever
// waits behind it finds it dead twice a second, until the TTL is over, and begins no transaction that writes for that:
// while one is open nobody else writes. Each such transaction draws a ticket, whose numbers the gate counts.
func TestWaiterBehindADeadProcessThatLingersWritesNothing(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	in, admin := newSessionIn(t, file, nil), newOperator(t, file)
	owner := driver.Entry{Queue: path, ID: "entry"}
	admin.exec(t, "INSERT INTO farsync_sessions VALUES ('owner', ?, ?, 1000000, 0)", machine.Boot(), machine.Clock()+int64(time.Hour/time.Microsecond))
	admin.exec(t, "INSERT INTO farsync_entries (id, queue, session, kind) VALUES (?, ?, 'owner', 'exclusive')", owner.ID, path)
	v, err := in.Create(within(t, soon), driver.Entry{Queue: path, ID: in.NewID(path, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}, 0)
	require.NoError(t, err)

	var dead atomic.Bool
	knocks := make(chan struct{})
	in.Dead = func(string) bool { // the first Watch begins afterwards
		select {
		case knocks <- struct{}{}:
		case <-t.Context().Done():
		}
		return dead.Load()
	}
	watched := make(chan error, 1)
	ctx := within(t, soon)
	go func() { // joined below
		_, err := in.Watch(ctx, v.Self, []driver.Target{{Entry: owner, What: driver.Gone}}, func() {})
		watched <- err
	}()
	knock := func(n int) {
		for range n {
			select {
			case <-knocks:
			case <-ctx.Done():
				require.Fail(t, "nobody knocks")
			}
		}
	}
	knock(1) // its owners are read, and the process lives
	admin.exec(t, "UPDATE farsync_sessions SET linger = 1 WHERE id = 'owner'")
	dead.Store(true)
	knock(2) // what the first has begun is over with the second
	before := tickets(t, file)
	knock(4)
	require.Equal(t, before, tickets(t, file))

	admin.runsOut(t, "owner")
	for {
		select {
		case err := <-watched:
			require.NoError(t, err)
			return
		case <-knocks:
		}
	}
}

// tickets returns the number that the gate of a file has counted to.
func tickets(t *testing.T, file string) uint64 {
	gate, err := os.ReadFile(file + "-gate")
	require.NoError(t, err)
	return binary.BigEndian.Uint64(gate)
}
