package zktest

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/zk"
)

// TestQueueThatIsTooLongIsAnErrorOfThatCall: the answer is longer than anything a peer may have us allocate. The
// locks of the Store live on, and so does its connection.
func TestQueueThatIsTooLongIsAnErrorOfThatCall(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	conn := newConn(t, server.Endpoint())
	persistent(t, conn, "/answers/long")
	const names, size = 180, 100_000
	for i := range names {
		path := fmt.Sprintf("/answers/long/%d%s", i, strings.Repeat("x", size))
		_, err := conn.Create(path, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
		require.NoError(t, err)
	}
	store := newTapped(t, nil)
	lease := lock(t, store.Store, "/answers/other")
	store.tap.onRequest(func(op int32, _ []byte) verdict {
		if op == opConnect {
			t.Error("the connection was given up")
		}
		return pass
	})
	mu := farsync.NewMutex(store.Store, "/answers/long")
	for _, by := range acquirers {
		ctx := within(t, soon)
		_, err := by.lock(mu, ctx)
		require.ErrorContains(t, err, "longer than 16 MiB")
		require.NoError(t, ctx.Err())
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestRefusalWithoutANameIsNotRepeated: the client library knows only some of the server's errors.
func TestRefusalWithoutANameIsNotRepeated(t *testing.T) {
	sharedServer(t)
	noLeaks(t)
	store := newTapped(t, nil)
	quotaExceeded := int32(-125)
	store.tap.onReply(func(op int32, frame []byte) verdict {
		if op == opGetChildren {
			binary.BigEndian.PutUint32(frame[16:], uint32(quotaExceeded))
		}
		return pass
	})
	store.tap.since()
	ctx := within(t, soon)
	_, err := farsync.NewMutex(store.Store, "/answers/refused").TryLock(ctx)
	require.ErrorContains(t, err, "error -125")
	require.NoError(t, ctx.Err())
	require.Equal(t, requests{opGetChildren: 1}, store.tap.since())
}

// TestMalformedAnswersAreSurvived: the client library believes a count, and reads past the end of what it is sent.
func TestMalformedAnswersAreSurvived(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	for name, row := range map[string]struct {
		op    int32
		spoil func(frame []byte)
	}{
		"a count of names": {opGetChildren, func(frame []byte) { binary.BigEndian.PutUint32(frame[20:], 1<<32-1) }},
		"a length of data": {opGetData, func(frame []byte) { binary.BigEndian.PutUint32(frame[20:], 1<<31-1) }},
		"a Multi without an end": {opMulti, func(frame []byte) { // in the middle of a result
			binary.BigEndian.PutUint32(frame, 16+9+4)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/answers/" + strings.ReplaceAll(name, " ", "-")
			holder := lock(t, newStore(t, server.Endpoint(), nil), path)
			store := newTapped(t, nil)
			session := store.tap.sessionID()
			other := lock(t, store.Store, path+"-other")
			var spoilt atomic.Bool
			store.tap.onReply(func(op int32, frame []byte) verdict {
				if op == row.op && len(frame) > 24 && !spoilt.Swap(true) {
					row.spoil(frame)
				}
				return pass
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			mine := lockBehind(t, store.Store, path)
			await(t, spoilt.Load)
			require.NoError(t, holder.Release())
			require.NoError(t, got(t, mine).Release())
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
			require.NoError(t, other.Release())
			require.Equal(t, session, store.tap.sessionID())
		})
	}
}

// TestChangeThatTheServerDoesNotTellIsNotWaitedForTwice: the connection is lost before the request arrives that sets
// the watches again, but after an answer that is younger than a change: the client library then asks for younger changes
// only, and the watch does not fire. Those that read the node themselves must get another watch, not a busy loop.
func TestChangeThatTheServerDoesNotTellIsNotWaitedForTwice(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	other := openSession(t, server.Endpoint(), 10*time.Second)
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 40*time.Second)
	e := create(t, other, "/answers/untold", driver.Candidate)
	change := func(e driver.Entry, value string) driver.Entry {
		e, err := other.Replace(within(t, soon), e, e.Kind, []byte(value))
		require.NoError(t, err)
		return e
	}
	watch := func(e driver.Entry) (context.CancelFunc, <-chan error) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		told, stands := make(chan error, 1), make(chan struct{})
		go func() { // ends with its context
			_, err := in.Watch(ctx, driver.Entry{}, []driver.Target{{Entry: e, What: driver.Changed}}, func() { close(stands) })
			told <- err
		}()
		select {
		case <-stands:
		case err := <-told:
			require.FailNow(t, "it does not wait", "%v", err)
		}
		return cancel, told
	}
	cancel, told := watch(e)
	p.outage()
	changed := change(e, "untold")
	dropped := make(chan struct{})
	p.onRequest(next(opSetWatches, 1, drop, func() { close(dropped) }))
	p.heal()
	got(t, dropped)
	find := func() (found driver.Entry) {
		await(t, func() (ok bool) {
			var err error
			found, err = in.Find(within(t, soon), changed)
			return err == nil
		})
		return found
	}
	find() // the answer is younger than the change
	p.sever()
	found := find()
	require.Equal(t, "untold", string(found.Value))
	require.Empty(t, told, "this is what the library does not do")
	cancel()
	require.Error(t, got(t, told))

	p.since()
	_, told = watch(found)
	require.Equal(t, requests{opGetData: 1}, p.since(), "another watch")
	require.Empty(t, told)
	change(changed, "told")
	require.NoError(t, got(t, told))
}

// TestConnectionOnWhichAnswersArriveIsKept: where a renewal waits behind long answers, another connection would have
// to be told everything again.
func TestConnectionOnWhichAnswersArriveIsKept(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	in := openSession(t, p.addr(), 10*time.Second)
	var connections atomic.Int64
	p.onRequest(next(opConnect, 1<<62, pass, func() { connections.Add(1) }))
	const resets = 20
	for range resets {
		_, err := in.Register(within(t, soon), "/answers/arrive")
		require.NoError(t, err)
		in.Reset()
	}
	require.Less(t, connections.Load(), int64(resets/2))
	before := connections.Load()
	await(t, func() bool {
		pause(t, time.Second/2) // in silence
		in.Reset()
		return connections.Load() > before
	})
}

// TestTLSReconnectOverALongWayKeepsTheSession: a handshake takes several round trips, which may be longer than a
// sixth of a short TTL.
func TestTLSReconnectOverALongWayKeepsTheSession(t *testing.T) {
	server := sharedServer(t)
	noLeaks(t)
	p := newTap(t, server.Endpoint())
	authority := locktest.NewAuthority(t)
	front := locktest.TLSFront(t, p.addr(), &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "localhost", time.Hour)},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pause(t, 4*150*time.Millisecond)
			return nil, nil
		},
	})
	_, port, err := net.SplitHostPort(front)
	require.NoError(t, err)
	for i := range 5 { // on a busy machine it may be lost all the same
		store := storeOn(t, []string{"localhost:" + port}, &zk.Options{
			Options: farsync.Options{TTL: 3 * time.Second}, TLS: &tls.Config{RootCAs: authority.Pool()},
		})
		lease := lock(t, store, fmt.Sprint("/answers/far", i))
		p.since()
		p.sever()
		await(t, func() bool { return p.requests(opMulti) > 0 || lease.Err() != nil })
		err := lease.Release()
		_ = store.Close()
		if err == nil {
			return
		}
	}
	require.FailNow(t, "no session has survived")
}
