package zk_test

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

// TestCollectedParentIsMadeAgain is scenario 14 and C8: the server has collected the queue's container, so that its
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

// TestNodeThatIsTakenAwayIsALoss is scenario 21: if no reply was lost, it was not the holder's own doing.
func TestNodeThatIsTakenAwayIsALoss(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	lease := lock(t, store, "/queue/taken")
	require.NoError(t, conn.Delete(nodeOf(t, lease), -1))
	require.ErrorIs(t, lease.Release(), farsync.ErrLost)
	require.NoError(t, lock(t, store, "/queue/taken").Release())
}

// TestWaiterWhoseNodeIsTakenAwayJoinsAgain: its session lives.
func TestWaiterWhoseNodeIsTakenAwayJoinsAgain(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	holder := lock(t, store, "/queue/wiped")
	waiter := lockBehind(t, newStore(t, server.Endpoint(), nil), "/queue/wiped")
	list := awaitNodes(t, conn, "/queue/wiped", 2)
	for i := range list {
		require.NoError(t, conn.Delete(list[1-i], -1))
	}
	lease := got(t, waiter)
	require.NotContains(t, list, nodeOf(t, lease))
	require.ErrorIs(t, holder.Release(), farsync.ErrLost)
	require.NoError(t, lease.Release())
}

// TestCancelledWaiterIsSkipped is scenarios 3 and 4, C10 and C13: it leaves nothing, and those behind keep their order.
func TestCancelledWaiterIsSkipped(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	store := newStore(t, server.Endpoint(), nil)
	holder := lock(t, store, "/queue/skipped")
	ctx, giveUp := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	second := farsync.NewMutex(newStore(t, server.Endpoint(), nil), "/queue/skipped")
	go func() {
		_, err := second.Lock(ctx)
		cancelled <- err
	}()
	awaitNodes(t, conn, "/queue/skipped", 2)
	third := lockBehind(t, store, "/queue/skipped")
	awaitNodes(t, conn, "/queue/skipped", 3)
	fourth := lockBehind(t, newStore(t, server.Endpoint(), nil), "/queue/skipped")
	before := awaitNodes(t, conn, "/queue/skipped", 4)
	giveUp()
	require.ErrorIs(t, <-cancelled, context.Canceled)
	require.Equal(t, []string{before[0], before[2], before[3]}, awaitNodes(t, conn, "/queue/skipped", 3))
	require.Empty(t, third)
	require.NoError(t, holder.Release())
	lease := got(t, third)
	require.Equal(t, before[2], nodeOf(t, lease))
	require.Empty(t, fourth)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, fourth).Release())
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
