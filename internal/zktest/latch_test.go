package zktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// newLatches starts a Java program that stands for election on the path with Curator's LeaderLatch.
func newLatches(t testing.TB, servers, path string, session time.Duration) *peer {
	t.Helper()
	return newJava(t, "testdata/Latch.java", servers, fmt.Sprint(session.Milliseconds()), path)
}

// start has a latch of Java's stand for election.
func start(t testing.TB, latches *peer, id string) {
	t.Helper()
	latches.ask(t, id, "start")
	latches.says(t, id, "started")
}

// campaign campaigns in a goroutine. The channel is sent the lease when it leads.
func campaign(t testing.TB, election *farsync.Election, value string) <-chan *farsync.Lease {
	elected := make(chan *farsync.Lease, 1)
	ctx := within(t, 2*soon)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err := election.Campaign(ctx, []byte(value))
		if err != nil {
			t.Error(err)
		}
		elected <- lease
	}()
	t.Cleanup(func() { <-done })
	return elected
}

// elected returns the lease that campaign got.
func elected(t testing.TB, leases <-chan *farsync.Lease) *farsync.Lease {
	t.Helper()
	select {
	case lease := <-leases:
		require.NotNil(t, lease)
		return lease
	case <-time.After(2 * soon):
		require.FailNow(t, "not elected")
		return nil
	}
}

// TestLatchesStandInOneElection: Java Curator's LeaderLatch waits for us and we for it, in the order of arrival, and each
// reads who leads and who stands.
func TestLatchesStandInOneElection(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	const path = "/interop/latch"
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, path)
	latches := newLatches(t, server.Endpoint(), path, 10*time.Second)
	election := farsync.NewElection(newStore(t, server.Endpoint(), nil), path)
	leads := func(asked, value string) {
		t.Helper()
		leader, err := election.Leader(within(t, soon))
		require.NoError(t, err)
		require.Equal(t, value, string(leader.Value))
		latches.ask(t, asked, "leader")
		latches.says(t, asked, "leader "+value)
	}

	// theirs, ours, theirs, ours
	start(t, latches, "first")
	latches.says(t, "first-listener", "leads")
	ours := campaign(t, election, "ours")
	awaitNodes(t, conn, path, 2)
	start(t, latches, "second")
	awaitNodes(t, conn, path, 3)
	last := campaign(t, election, "last")
	awaitNodes(t, conn, path, 4)
	leads("second", "first")
	list, err := election.Candidates(within(t, soon))
	require.NoError(t, err)
	for i, value := range []string{"first", "ours", "second", "last"} {
		require.Equal(t, value, list[i].Holder)
		require.Equal(t, i == 0, list[i].Held)
	}
	latches.ask(t, "second", "participants")
	latches.says(t, "second", "first* last ours second")

	require.Empty(t, ours)
	latches.ask(t, "first", "close")
	latches.says(t, "first", "closed")
	lease := elected(t, ours)
	leads("second", "ours")
	require.Empty(t, latches.thread("second-listener"), "two lead at once")
	require.NoError(t, lease.Release())
	latches.says(t, "second-listener", "leads")
	leads("second", "second")
	require.Empty(t, last)
	latches.ask(t, "second", "close")
	latches.says(t, "second", "closed")
	final := elected(t, last)
	require.Greater(t, final.Token(), lease.Token())
	require.NoError(t, election.Proclaim(within(t, soon), final, []byte("last-still"))) // no latch waits behind it
	start(t, latches, "onlooker")
	awaitNodes(t, conn, path, 2)
	leads("onlooker", "last-still")
	require.NoError(t, final.Release())
	latches.says(t, "onlooker-listener", "leads")
	latches.ask(t, "onlooker", "close")
	latches.says(t, "onlooker", "closed")
	awaitNodes(t, conn, path, 0)
}

// TestLatchAndWeDieForOneAnother: the node of one that is dead goes with its session, and the next leads.
func TestLatchAndWeDieForOneAnother(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	const path = "/interop/deadlatch"
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, path)
	t.Run("theirs", func(t *testing.T) {
		latches := newLatches(t, server.Endpoint(), path, 2*time.Second)
		start(t, latches, "dead")
		latches.says(t, "dead-listener", "leads")
		ours := campaign(t, farsync.NewElection(newStore(t, server.Endpoint(), nil), path), "ours")
		require.NoError(t, conn.Delete(awaitNodes(t, conn, path, 2)[0], -1)) // as its session would, without the wait
		lease := elected(t, ours)
		require.NoError(t, lease.Release())
	})
	t.Run("ours", func(t *testing.T) {
		p := newTap(t, server.Endpoint())
		store := newStore(t, p.addr(), withTTL(2*time.Second))
		lease, err := farsync.NewElection(store, path).Campaign(within(t, soon), []byte("dead"))
		require.NoError(t, err)
		latches := newLatches(t, server.Endpoint(), path, 10*time.Second)
		start(t, latches, "heir")
		p.expire(t)
		latches.says(t, "heir-listener", "leads")
		<-lease.Done()
		require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	})
}

// TestLatchesAndWeTakeTurns: over many changes, a leader of ours is never told so while one of Java's leads.
func TestLatchesAndWeTakeTurns(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	const path = "/interop/turns"
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, path)
	latches := newLatches(t, server.Endpoint(), path, 10*time.Second)
	election := farsync.NewElection(newStore(t, server.Endpoint(), nil), path)
	start(t, latches, "java-0")
	awaitNodes(t, conn, path, 1)
	for i := range 20 {
		java, next := fmt.Sprintf("java-%d", i), fmt.Sprintf("java-%d", i+1)
		ours := campaign(t, election, fmt.Sprintf("go-%d", i))
		awaitNodes(t, conn, path, 2)
		start(t, latches, next)
		awaitNodes(t, conn, path, 3)
		latches.says(t, java+"-listener", "leads")
		require.Empty(t, ours, "two lead at once")
		latches.ask(t, java, "close")
		latches.says(t, java, "closed")
		lease := elected(t, ours)
		require.Empty(t, latches.thread(next+"-listener"), "two lead at once")
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release())
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	leader, err := election.Leader(ctx)
	require.NoError(t, err)
	require.Equal(t, "java-20", string(leader.Value))
}
