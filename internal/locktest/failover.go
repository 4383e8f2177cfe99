package locktest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// A Way leads the connections of a client to a server. It may lead to another one later, or nowhere.
type Way struct {
	mu    sync.Mutex
	to    string
	conns []net.Conn
}

// NewWay returns a Way to an address.
func NewWay(to string) *Way { return &Way{to: to} }

// Dial connects to where the Way leads now.
func (w *Way) Dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == "" {
		return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.to)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// Lead breaks all connections. Later connections lead to another address, or nowhere if that is empty.
func (w *Way) Lead(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// A Failover of a database goes to a replica which has not received all, while the old primary lives on and takes writes.
type Failover struct {
	Old, New string                                                         // addresses
	Open     func(t *testing.T, way *Way, ttl time.Duration) *farsync.Store // through the way
	Part     func()                                                         // from now on the replica receives nothing
	Promote  func()
	Guard    func(t *testing.T, address string, lease Owner) error // of a transaction at one of the two
}

// RunFailover shows for how long an earlier holder and the one at the new primary hold both, and what a guard does on
// which side. The replica has received the sessions, and none of the locks.
func RunFailover(t *testing.T, f Failover) {
	const ttl = 10 * time.Second
	open := func() (*Way, *farsync.Store) {
		way := NewWay(f.Old)
		return way, f.Open(t, way, ttl)
	}
	_, stays := open()
	partedBy, parted := open()
	followedBy, follows := open()
	kept := Lock(t, follows, "/kept")
	f.Part()
	lateBy, late := open()

	began := time.Now()
	earlier := map[string]*farsync.Lease{
		"/stays": Lock(t, stays, "/stays"), "/parted": Lock(t, parted, "/parted"), "/late": Lock(t, late, "/late"),
		"/follows": Lock(t, follows, "/follows"), "/releases": Lock(t, follows, "/releases"),
	}
	f.Promote()
	now := f.Open(t, NewWay(f.New), ttl)
	next := map[string]*farsync.Lease{}
	for path, lease := range earlier {
		next[path] = Lock(t, now, path)
		require.Greater(t, next[path].Token(), lease.Token(), "what checks tokens refuses the earlier holder from now on")
	}
	require.NoError(t, earlier["/stays"].Err(), "two hold")
	_, err := farsync.NewMutex(now, "/kept").TryLock(Within(t, Soon))
	require.ErrorIs(t, err, farsync.ErrLocked, "what the replica has received is held there, too")
	partedBy.Lead("")
	gone := time.Now()
	followedBy.Lead(f.New)
	lateBy.Lead(f.New)

	// Where the client has gone matters to none of these: a guard asks the server of its own transaction.
	require.ErrorIs(t, f.Guard(t, f.New, earlier["/stays"]), farsync.ErrLost)
	require.NoError(t, f.Guard(t, f.New, next["/stays"]))
	require.NoError(t, f.Guard(t, f.Old, earlier["/stays"]), "the old primary knows of none but the earlier holder")
	require.ErrorIs(t, f.Guard(t, f.Old, next["/stays"]), farsync.ErrLost)

	// A holder who follows is told by its Release, and by the watch on its own entry. Its session lives on, with what the
	// replica has received.
	require.ErrorIs(t, earlier["/releases"].Release(), farsync.ErrLost)
	lost(t, earlier["/follows"], "its entry was removed")
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
	// The replica does not know a session that was opened later. Either the first renewal there says so, or the watch.
	lost(t, earlier["/late"], "")
	require.NoError(t, Lock(t, late, "/again").Release())

	// The lease of a holder who is parted from both ends by the holder's own clock.
	lost(t, earlier["/parted"], "")
	counted := earlier["/parted"].Deadline().Sub(gone)
	require.LessOrEqual(t, counted, ttl, "it counts from the last renewal that was answered")

	// A holder who stays goes on for as long as the old primary takes the renewals.
	lease, later := earlier["/stays"], began.Add(2*ttl)
	require.Eventually(t, func() bool {
		return lease.Err() != nil || lease.Deadline().After(later)
	}, 2*Soon, time.Millisecond)
	require.NoError(t, lease.Err(), "two hold still")
	for path, lease := range next {
		require.NoError(t, lease.Release(), path)
	}
	require.NoError(t, lease.Release())
}

func lost(t *testing.T, lease *farsync.Lease, words string) {
	t.Helper()
	Ended(t, lease)
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.ErrorContains(t, lease.Err(), words)
}
