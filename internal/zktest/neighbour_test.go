package zktest

import (
	"fmt"
	"strings"
	"testing"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestNeighbourWithoutTheDigest can change nothing and read nothing of a queue whose user has a Digest. It sees whether
// a node is there whose name it knows.
func TestNeighbourWithoutTheDigest(t *testing.T) {
	server, stranger := begin(t)
	require.NoError(t, stranger.AddAuth("digest", []byte("other:password"))) // another user is as good as none
	options := as("user", "password")
	options.TTL = longest
	store := newStore(t, server, options)
	lease := lock(t, store, "/neighbour/none")
	node := nodeOf(t, lease)
	for name, err := range map[string]error{
		"list":   second(stranger.Children("/neighbour/none")),
		"get":    second(stranger.Get(node)),
		"set":    third(stranger.Set(node, nil, -1)),
		"size":   third(stranger.Set("/neighbour/none", []byte("9 9"), -1)),
		"delete": stranger.Delete(node, -1),
		"create": third(stranger.Create("/neighbour/none/_c_x-lock-0", nil, client.FlagEphemeral, client.WorldACL(client.PermAll))),
		"open":   third(stranger.SetACL("/neighbour/none", client.WorldACL(client.PermAll), -1)),
	} {
		require.ErrorIs(t, err, client.ErrNoAuth, name)
	}
	there, _, err := stranger.Exists(node)
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestNeighbourWhoMayCreateAbove a queue keeps others from a lock that nobody has used: it makes the node first, and
// gives them no right, or all clients every right. They are refused, and their locks are those of nobody. A queue that
// is there it cannot remove.
func TestNeighbourWhoMayCreateAbove(t *testing.T) {
	server, stranger := begin(t)
	options := as("user", "password")
	options.TTL = longest
	store := newStore(t, server, options)
	first := lock(t, store, "/neighbour/above/first") // the nodes above are open to all, and stay while it is held
	for path, row := range map[string]struct {
		acl  []client.ACL
		says string
	}{
		"/neighbour/above/closed": {client.DigestACL(client.PermAll, "other", "password"), "an ACL forbids it to digest user user"},
		"/neighbour/above/open":   {client.WorldACL(client.PermAll), "can be written to by everybody"},
	} {
		_, err := stranger.Create(path, nil, 0, row.acl)
		require.NoError(t, err)
		_, err = farsync.NewMutex(store, path).Lock(within(t, soon))
		require.ErrorContains(t, err, row.says)
	}
	lease := lock(t, store, "/neighbour/above/held")
	require.ErrorIs(t, stranger.Delete("/neighbour/above/held", -1), client.ErrNotEmpty)
	require.NoError(t, lease.Release())
	require.NoError(t, first.Release())
}

// TestNeighbourWhoPutsANodeAheadOfAHolder, of Curator's name, of farsync's, as a copied tree has, or another, takes nothing from it: the lease is
// released in good order. Others are refused at once, by the name of that node.
func TestNeighbourWhoPutsANodeAheadOfAHolder(t *testing.T) {
	server, stranger := begin(t)
	store, other := newStore(t, server, withTTL(longest)), newStore(t, server, withTTL(longest))
	for i, name := range []string{
		"0", "lock-0000000000", "_c_9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d-lock-0000000000", "__WRIT__0000000000", "_c_ABCDEFGHIJKL1-lock-0000000000",
	} {
		path := fmt.Sprint("/neighbour/ahead", i)
		persistent(t, stranger, path)                      // else the server may remove it, and count from 0
		require.NoError(t, lock(t, store, path).Release()) // number 0
		lease := lock(t, store, path)
		node := path + "/" + name
		_, err := stranger.Create(node, nil, 0, client.WorldACL(client.PermAll))
		require.NoError(t, err)
		refused := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, fmt.Sprintf("%q is not ephemeral", node))
			require.NotErrorIs(t, err, farsync.ErrLocked)
		}
		mu := farsync.NewMutex(other, path)
		_, err = mu.Lock(within(t, soon))
		refused(err)
		_, err = mu.TryLock(within(t, soon))
		refused(err)
		require.NoError(t, lease.Release())
		require.NoError(t, stranger.Delete(node, -1))
		require.NoError(t, lock(t, other, path).Release())
	}
}

// TestNeighboursLongNodeIsNamedByItsBeginning: a node's name may have a megabyte. An error that names it fits into a log.
func TestNeighboursLongNodeIsNamedByItsBeginning(t *testing.T) {
	server, stranger := begin(t)
	store := newStore(t, server, withTTL(longest))
	persistent(t, stranger, "/neighbour/long")
	name := strings.Repeat("x", 100_000)
	node, err := stranger.Create("/neighbour/long/"+name+"-lock-", nil, client.FlagSequence, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	_, err = farsync.NewMutex(store, "/neighbour/long").Lock(within(t, soon))
	require.ErrorContains(t, err, "is not ephemeral")
	require.ErrorContains(t, err, fmt.Sprintf("… %d bytes", len(node)))
	require.Less(t, len(err.Error()), 4<<10)
	require.NoError(t, stranger.Delete(node, -1))
	require.NoError(t, lock(t, store, "/neighbour/long").Release())
}

// TestUnreadableNodeHidesNoLock, whoever has made it: a user with a Digest, in whose tree a client without one may
// read nothing, or a neighbour. A survey shows that the path may not be read, and why. Who asks for that path alone
// gets an error that names it. An entry that may not be read is shown without its text.
func TestUnreadableNodeHidesNoLock(t *testing.T) {
	server, stranger := begin(t)
	options := as("user", "password")
	options.TTL = longest
	persistent(t, stranger, "/unreadable")
	store, closed := newStore(t, server, withTTL(longest)), newStore(t, server, options)
	first, hidden, last := lock(t, store, "/unreadable/a"), lock(t, closed, "/unreadable/b"), lock(t, store, "/unreadable/c")
	_, err := stranger.Create("/unreadable/d", nil, 0, unreadable)
	require.NoError(t, err)
	_, err = stranger.Create("/unreadable/c/_c_x-lock-9999999999", []byte("nobody"), client.FlagEphemeral, unreadable)
	require.NoError(t, err)
	for _, prefix := range []string{"/unreadable", "/unreadable/"} {
		var paths, wrong []string
		for lock, err := range store.Survey(within(t, soon), prefix) {
			require.NoError(t, err)
			paths = append(paths, fmt.Sprint(lock.Path, " ", len(lock.Participants)))
			if lock.Err != nil {
				wrong = append(wrong, lock.Err.Error())
			}
		}
		require.Equal(t, []string{"/unreadable/a 1", "/unreadable/b 0", "/unreadable/c 2", "/unreadable/d 0"}, paths)
		require.Equal(t, []string{
			`node "/unreadable/b": an ACL forbids it to clients without a Digest: zk: not authenticated`,
			`node "/unreadable/d": an ACL forbids it to clients without a Digest: zk: not authenticated`,
		}, wrong)
	}
	list, err := store.Participants(within(t, soon), "/unreadable/c")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, last.Token(), list[0].Token)
	require.Empty(t, list[1].Holder)
	require.NotEmpty(t, list[1].Session)
	_, err = store.Participants(within(t, soon), "/unreadable/b")
	require.ErrorContains(t, err, `node "/unreadable/b": an ACL forbids it`)
	for _, err := range store.Survey(within(t, soon), "/unreadable/d/") {
		require.ErrorContains(t, err, `node "/unreadable/d": an ACL forbids it`)
	}
	for _, lease := range []*farsync.Lease{first, hidden, last} {
		require.NoError(t, lease.Release())
	}
}

// second and third return the error of a request.
func second[A, B any](_ A, _ B, err error) error { return err }

func third[A any](_ A, err error) error { return err }
