package zktest

import (
	"slices"
	"testing"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
)

// swap puts a copy in the place of a node, in one transaction: a node of the same name with the same data, which goes
// with the session of conn.
func swap(t *testing.T, conn *client.Conn, node string, acl []client.ACL) {
	t.Helper()
	data, _, err := conn.Get(node)
	require.NoError(t, err)
	_, err = conn.Multi(&client.DeleteRequest{Path: node, Version: -1},
		&client.CreateRequest{Path: node, Data: data, Acl: acl, Flags: client.FlagEphemeral})
	require.NoError(t, err)
}

// unreadable are the rights of a node that no other user may read.
var unreadable = client.DigestACL(client.PermAll, "other", "password")

// TestHolderWhoseNodeIsReplacedByACopyIsTold: its waiter is let in, as where the node is deleted, and the holder is
// told, as there. The copy goes with another client's session, which may live for any time. The copy may be
// unreadable.
func TestHolderWhoseNodeIsReplacedByACopyIsTold(t *testing.T) {
	server, stranger := begin(t)
	store, other := newStore(t, server, withTTL(longest)), newStore(t, server, withTTL(longest))
	for path, acl := range map[string][]client.ACL{"/copied/open": client.WorldACL(client.PermAll), "/copied/closed": unreadable} {
		t.Run(path[1:], func(t *testing.T) {
			lease := lock(t, store, path)
			next := lockBehind(t, other, path)
			waiter := statOf(t, stranger, awaitNodes(t, stranger, path, 2)[1]).EphemeralOwner
			node := nodeOf(t, lease)
			// A waiter who sees the copy, and not the node before it, is refused where an ACL hides the copy.
			await(t, func() bool { return slices.Contains(listed(t, "wchc", waiter), node) })
			swap(t, stranger, node, acl)
			got(t, lease.Done())
			require.ErrorIs(t, lease.Err(), farsync.ErrLost)
			require.ErrorContains(t, lease.Err(), "removed by another client")
			require.ErrorIs(t, lease.Release(), farsync.ErrLost)
			there, _, err := stranger.Exists(node)
			require.NoError(t, err)
			require.True(t, there, "the copy is another client's")
			require.NoError(t, stranger.Delete(node, -1))
			newer := got(t, next)
			require.NoError(t, newer.Release())
		})
	}
}

// TestCopyOfAnEntryIsNotThatEntry, also to a session that has listed it before.
func TestCopyOfAnEntryIsNotThatEntry(t *testing.T) {
	server, stranger := begin(t)
	own, operator := openSession(t, server, longest), openSession(t, server, longest)
	for kind, acl := range map[driver.Kind][]client.ACL{
		driver.Exclusive: client.WorldACL(client.PermAll), driver.Permit: client.WorldACL(client.PermAll), driver.Read: unreadable,
		driver.Write: unreadable, driver.Candidate: client.WorldACL(client.PermRead | client.PermWrite),
	} {
		queue := "/copied/as-" + kind.String()
		e := create(t, own, queue, kind)
		listed, err := operator.List(within(t, soon), queue, 0)
		require.NoError(t, err)
		require.Len(t, listed.Entries, 1)
		watched := func(in driver.Session, e driver.Entry, what driver.What) <-chan error {
			stands, over := make(chan struct{}), make(chan error, 1)
			go func() {
				_, err := in.Watch(within(t, soon), driver.Entry{}, []driver.Target{{Entry: e, What: what}}, func() { close(stands) })
				over <- err
			}()
			got(t, stands)
			return over
		}
		ends := []<-chan error{
			watched(own, e, driver.Told), watched(own, e, driver.Gone), watched(operator, listed.Entries[0], driver.Gone),
		}
		swap(t, stranger, e.ID, acl)
		for _, over := range ends {
			require.NoError(t, got(t, over))
		}
		for _, row := range []struct {
			driver.Session
			driver.Entry
		}{{own, e}, {operator, listed.Entries[0]}} {
			_, err = row.Find(within(t, soon), row.Entry)
			require.ErrorIs(t, err, driver.ErrGone)
			_, err = row.Heard(within(t, soon), row.Entry)
			require.ErrorIs(t, err, driver.ErrGone)
			for _, what := range []driver.What{driver.Told, driver.Gone} { // begun after the swap
				_, err = row.Watch(within(t, soon), driver.Entry{}, []driver.Target{{Entry: row.Entry, What: what}}, func() { t.Error("stands") })
				require.NoError(t, err)
			}
		}
		_, found, err := operator.Delete(within(t, soon), listed.Entries[0])
		require.NoError(t, err)
		require.False(t, found)
		require.NoError(t, stranger.Delete(e.ID, -1))
	}
}

// TestCopyHidesNoHolderFromOperators: who holds cannot be told from the nodes, so the copy and the client who was let
// in past it are both shown as holders, beside an error that names the copy. Break ends the hold by its token.
func TestCopyHidesNoHolderFromOperators(t *testing.T) {
	server, stranger := begin(t)
	path := "/copied/shown"
	store, third := newStore(t, server, withTTL(longest)), newStore(t, server, withTTL(longest))
	other, standing := newStanding(t, server)
	first := lock(t, store, path)
	next := lockBehind(t, other.Store, path)
	standing.Await(t, 1) // else it sees the copy ahead, and waits for that
	last := lockBehind(t, third, path)
	awaitNodes(t, stranger, path, 3)
	node := nodeOf(t, first)
	swap(t, stranger, node, client.WorldACL(client.PermAll))
	newer := got(t, next)
	list, err := third.Participants(within(t, soon), path)
	require.ErrorContains(t, err, node)
	require.ErrorContains(t, err, "was made after")
	require.Len(t, list, 3)
	require.True(t, list[0].Held)
	require.NotEqual(t, first.Token(), list[0].Token)
	require.True(t, list[1].Held)
	require.Equal(t, newer.Token(), list[1].Token)
	require.False(t, list[2].Held)
	for lock, err := range third.Survey(within(t, soon), path) {
		require.NoError(t, err)
		require.ErrorContains(t, lock.Err, node)
		require.Equal(t, list, lock.Participants)
	}
	require.ErrorIs(t, third.Break(within(t, soon), path, first.Token(), nil), farsync.ErrReleased)
	require.NoError(t, third.Break(within(t, soon), path, newer.Token(), nil))
	require.ErrorIs(t, newer.Err(), farsync.ErrBroken)
	got(t, first.Done())
	require.NoError(t, third.Break(within(t, soon), path, list[0].Token, &farsync.BreakOptions{Remove: true}))
	require.NoError(t, got(t, last).Release())
	require.ErrorIs(t, first.Release(), farsync.ErrLost)
}
