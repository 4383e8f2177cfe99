package zktest

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// TestCollectedParentIsMadeAgain: the server has collected the queue's container, so that its
// sequences begin anew, and the tokens do not.
func TestCollectedParentIsMadeAgain(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	first := lock(t, store, "/collected")
	require.NoError(t, first.Release())
	await(t, func() bool {
		there, _, err := conn.Exists("/collected")
		require.NoError(t, err)
		return !there
	})
	second := lock(t, store, "/collected")
	require.Regexp(t, "-lock-0000000000$", nodeOf(t, second))
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Release())
}

// TestParentThatIsCollectedWhileItsChildIsMade is scenario 14 in the middle of a Lock.
func TestParentThatIsCollectedWhileItsChildIsMade(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	path := fmt.Sprint("/queue/race", time.Now().UnixNano(), "/parent")
	store := newTapped(t, nil)
	var tries atomic.Int64
	store.tap.onRequest(func(op int32, frame []byte) verdict {
		// The first try is made before there is anything above.
		if op == opContainer && bytes.Contains(frame, []byte(path)) && tries.Add(1) == 2 {
			if err := conn.Delete(path[:len(path)-len("/parent")], -1); err != nil {
				t.Error(err)
			}
		}
		return pass
	})
	lease := lock(t, store.Store, path)
	require.Equal(t, []string{nodeOf(t, lease)}, nodes(t, conn, path))
	require.EqualValues(t, 3, tries.Load())
	require.NoError(t, lease.Release())
}

// TestQueueBelowAnotherThatSortsAheadIsRefused: a lock below another one has a container of its own, which blocks the
// other if its name is a number.
func TestQueueBelowAnotherThatSortsAheadIsRefused(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	store := newStore(t, server.Endpoint(), nil)
	below := lock(t, store, "/queue/number/0")
	_, err := farsync.NewMutex(store, "/queue/number").Lock(within(t, soon))
	require.ErrorContains(t, err, `"/queue/number/0" is not ephemeral`)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_, err = farsync.NewMutex(store, "/queue/number").Participants(within(t, soon))
	require.ErrorContains(t, err, `"/queue/number/0" is not ephemeral`)
	require.NoError(t, below.Release())
	above := lock(t, store, "/queue/word")
	below = lock(t, store, "/queue/word/below")
	list, err := farsync.NewMutex(store, "/queue/word").Participants(within(t, soon))
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, above.Release())
	require.NoError(t, below.Release())
}

// TestWaitBehindAStrangerIsTold: somebody made a node that Curator's comparator puts ahead. It is waited for, and the
// error says so.
func TestWaitBehindAStrangerIsTold(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	stranger := foreign(t, conn, "/queue/stranger", client.FlagEphemeralSequential)
	store := newTapped(t, nil)
	ctx, giveUp := context.WithCancel(t.Context())
	locked := make(chan error, 1)
	go func() {
		_, err := farsync.NewMutex(store.Store, "/queue/stranger").Lock(ctx)
		locked <- err
	}()
	store.tap.await(t, opGetData, 1)
	giveUp()
	err := <-locked
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, stranger.ID)
	require.NoError(t, conn.Delete(stranger.ID, -1))
	require.NoError(t, lock(t, store.Store, "/queue/stranger").Release())
}
