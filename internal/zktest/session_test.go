package zktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// TestRenewalsProveOneAnotherAQuarterOfTheTTLApart: an answer of the leader's proves that it has heard of the request
// before if a heartbeat of the follower lies between. Syncs that look for a lost create come at any time. Here one comes
// right after a renewal.
func TestRenewalsProveOneAnotherAQuarterOfTheTTLApart(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "a session with a TTL of 2 s is to live for three of them")
	server, _ := begin(t)
	in := openSession(t, server, 2*time.Second)
	e := create(t, in, "/session/apart", driver.Exclusive)
	ttl, _ := in.Granted()
	for _, prove := range [][]driver.Entry{nil, {e}, {{ID: e.ID + "0"}}} { // the last of them is not there
		var sent [2]time.Time
		for i := range sent {
			pause(t, ttl/4+10*time.Millisecond)
			sent[i] = time.Now()
			require.NoError(t, in.Renew(within(t, soon), prove))
		}
		_, err := in.Find(within(t, soon), e) // after a Sync
		require.NoError(t, err)
		_, from := in.Granted()
		require.False(t, from.Before(sent[0]), "the second proves the first")
		require.True(t, from.Before(sent[1]), "the Sync that follows proves nothing")
	}
}

// TestRenewalOfAHolderIsAProposal, which a quorum has to answer: a leader that is cut off answers Syncs alone. A renewal that has nothing to prove
// is a Sync, for a proposal costs every server a write.
func TestRenewalOfAHolderIsAProposal(t *testing.T) {
	server, _ := begin(t)
	p := newTap(t, server)
	in := openSession(t, p.addr(), longest)
	e := create(t, in, "/session/proposal", driver.Exclusive)
	for _, row := range []struct {
		prove         []driver.Entry
		multis, syncs int
	}{{[]driver.Entry{e}, 1, 0}, {nil, 0, 1}, {[]driver.Entry{e}, 1, 0}} {
		p.since()
		require.NoError(t, in.Renew(within(t, soon), row.prove))
		require.Equal(t, row.multis, p.requests(opMulti), row)
		require.Equal(t, row.syncs, p.requests(opSync), row)
	}
}

// TestSyncsProveNothingWhileProposalsAreAskedFor: a leader that is cut off answers Syncs, and no proposals.
func TestSyncsProveNothingWhileProposalsAreAskedFor(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "the renewals of a session with a TTL of 2 s must be in time")
	server, _ := begin(t)
	p := newTap(t, server)
	in := openSession(t, p.addr(), 2*time.Second)
	e := create(t, in, "/session/proposals", driver.Exclusive)
	ttl, _ := in.Granted()
	pause(t, ttl/4+10*time.Millisecond)
	require.NoError(t, in.Renew(within(t, soon), []driver.Entry{e}))
	_, from := in.Granted()
	p.onReply(next(opMulti, 1<<62, drop))
	for range 2 {
		pause(t, ttl/4+10*time.Millisecond)
		require.Error(t, in.Renew(within(t, ttl/20), []driver.Entry{e}))
		// After a Sync. On a machine that is busy the driver may have given up the connection for its silence.
		await(t, func() bool {
			_, err := in.Find(within(t, soon), e)
			return err == nil
		})
		_, now := in.Granted()
		require.Equal(t, from, now)
	}
	require.NoError(t, in.Renew(within(t, soon), nil))
	_, now := in.Granted()
	require.Greater(t, now, from, "it is the caller who asks for proposals")
}

// TestQuorumProvesAHoldBeforeItBegins has a waiter, whose session is kept by Syncs: the leader that answers them may
// be cut off, and the news that the lock is free come from before that.
func TestQuorumProvesAHoldBeforeItBegins(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "waits for renewals of a TTL of 2 s")
	server, _ := begin(t)
	holder := lock(t, newStore(t, server, nil), "/session/begins")
	store := newTapped(t, server, withTTL(2*time.Second))
	granted := lockBehind(t, store.Store, "/session/begins")
	store.tap.await(t, opGetData, 1)
	store.tap.await(t, opSync, 3)
	store.tap.onReply(next(opMulti, 2, drop))
	require.NoError(t, holder.Release())
	await(t, func() bool { return store.tap.requests(opMulti) > 1 || len(granted) > 0 })
	require.Empty(t, granted, "by the word of a leader alone")
	lease := got(t, granted)
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestConnectionOnWhichAnswersArriveIsKept: where a renewal waits behind long answers, another connection would have
// to be told everything again.
func TestConnectionOnWhichAnswersArriveIsKept(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "answers must come within half a second")
	server, _ := begin(t)
	p := newTap(t, server)
	in := openSession(t, p.addr(), 10*time.Second)
	connections := make(chan struct{}, 1<<10)
	p.onRequest(next(opConnect, 1<<62, pass, func() { connections <- struct{}{} }))
	const resets = 20
	for range resets {
		_, err := in.Register(within(t, soon), "/session/arrive")
		require.NoError(t, err)
		in.Reset()
	}
	before := len(connections)
	require.Less(t, before, resets/2)
	await(t, func() bool {
		pause(t, time.Second/2) // in silence
		in.Reset()
		return len(connections) > before
	})
}

// TestCloseWaitsForAnOpenThatFails: the Store is between two sessions, and no goroutine of its is left behind. Other tests
// would have goroutines at the same time.
func TestCloseWaitsForAnOpenThatFails(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "cuts a client with a TTL of 1 s off from the server")
	p := newTap(t, sharedServer(t).Endpoint())
	p.outage()
	before := goleak.IgnoreCurrent()
	p.heal()
	var told locktest.States
	store, err := zk.Open(within(t, soon), []string{p.addr()}, &zk.Options{Options: farsync.Options{TTL: time.Second, OnState: told.Hook}})
	require.NoError(t, err)
	p.outage()
	told.Await(t, farsync.StateConnected, farsync.StateSuspended, farsync.StateLost)
	pause(t, 300*time.Millisecond) // it tries, and then some
	require.NoError(t, store.Close())
	require.NoError(t, goleak.Find(before))
}
