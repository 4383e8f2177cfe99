package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// RunSetRevisions has the last revision of a queue set, by an expression of SQL in which "last" is the present revision.
// Where the revision was set back, tokens rise by the clock of the server; where it was set forward, they go on from
// there. At the end of the numbers nobody joins the queue, until the revision is set back.
func RunSetRevisions(t *testing.T, store *farsync.Store, path string, set func(last string)) {
	token := func() farsync.Token {
		lease := Lock(t, store, path)
		require.NoError(t, lease.Release())
		return lease.Token()
	}
	first := token()
	set("0")
	second := token()
	require.Greater(t, second, first)
	set("last + 1000000000000")
	require.Greater(t, token(), second+1_000_000_000_000)
	set("9223372036854775807")
	_, err := farsync.NewMutex(store, path).Lock(Within(t, Soon))
	require.ErrorContains(t, err, "out of range")
	require.ErrorContains(t, err, "set last in its row of farsync_queues to 0")
	require.NoError(t, Lock(t, store, path+"-other").Release())
	set("36028797018963968") // 2^55
	_, err = farsync.NewMutex(store, path).Lock(Within(t, Soon))
	require.ErrorContains(t, err, "does not fit a token")
	require.ErrorContains(t, err, "set it back")
	set("0")
	require.Greater(t, token(), first)
}
