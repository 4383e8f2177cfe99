package etcdtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// TestKeyThatStandsAgainIsNotTakenForItsNextEntry: a writer's key was downgraded and deleted, the service has gone back
// to before the delete, and the session draws the key for another writer. As it stands it is a reader's, beside which
// other readers would be let in.
func TestKeyThatStandsAgainIsNotTakenForItsNextEntry(t *testing.T) {
	server, admin := begin(t)
	in := openSession(t, newClient(t, server.Endpoint()))
	path := newPath(t)
	was := in.create(t, path, driver.Write)
	lease, err := strconv.ParseInt(in.find(t, was).Session, 16, 64)
	require.NoError(t, err)
	was, err = in.Replace(t.Context(), was, driver.Read, nil)
	require.NoError(t, err)
	_, found, err := in.Delete(t.Context(), was)
	require.NoError(t, err)
	require.True(t, found)
	for range 2 { // stands again
		_, err = admin.Put(t.Context(), was.ID, "", clientv3.WithLease(clientv3.LeaseID(lease)))
		require.NoError(t, err)
	}

	e := in.entry(path, driver.Write)
	require.Equal(t, was.ID, e.ID)
	_, err = in.Create(t.Context(), e, 0)
	require.Equal(t, driver.NotDone, in.Outcome(err), "%v", err)
	require.Empty(t, keysOf(t, admin, path))
	v, err := in.Create(t.Context(), e, 1)
	require.NoError(t, err)
	require.Equal(t, driver.Write, in.find(t, v.Self).Kind)
	in.delete(t, v.Self)
	require.NotEqual(t, e.ID, in.NewID(path, driver.Write, 1), "two attempts were made to create it")
}

// A rough server is t's own, and its data may be put back to what they were.
type roughServer struct {
	*embedtest.EtcdServer
	dir, copied string
}

func newRoughServer(t *testing.T) *roughServer {
	t.Parallel()
	noLeaks(t)
	dir := t.TempDir()
	s := &roughServer{dir: filepath.Join(dir, "etcd"), copied: filepath.Join(dir, "copied")}
	cluster, err := embedtest.StartEtcd(within(t, soon), s.dir, 1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	s.EtcdServer = cluster.Member(0)
	return s
}

// restart stops the server, and starts it again when f has been called.
func (s *roughServer) restart(t *testing.T, f func()) {
	t.Helper()
	s.Kill()
	f()
	require.NoError(t, s.Restart(within(t, soon)))
}

// keep copies the data.
func (s *roughServer) keep(t *testing.T) {
	s.restart(t, func() { s.copyAll(t, s.dir, s.copied) })
}

// putBack has the server go on with the copy.
func (s *roughServer) putBack(t *testing.T) {
	s.restart(t, func() {
		require.NoError(t, os.RemoveAll(s.dir))
		s.copyAll(t, s.copied, s.dir)
	})
}

func (*roughServer) copyAll(t *testing.T, from, to string) {
	words, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(t, err, "%s", words)
}

// TestReleasesThatAreUndoneAreDoneAgain: the locks that were released since stand again, in a session that lives and is
// renewed. The Store removes them, and leaves what it holds. The holder of a lock that is not there any more is told.
func TestReleasesThatAreUndoneAreDoneAgain(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server := newRoughServer(t)
	const long = 24 * time.Second // more than it takes to restart the server
	store, other := newStore(t, server.Endpoint(), ttl(long)), newStore(t, server.Endpoint(), ttl(long))
	undone, kept := lock(t, store, "/undone"), lock(t, store, "/kept")
	units, err := farsync.NewSemaphore(store, "/units", 1).Acquire(within(t, soon), 1)
	require.NoError(t, err)
	write, err := farsync.NewRWMutex(store, "/write").Lock(within(t, soon))
	require.NoError(t, err)
	server.keep(t)
	for _, lease := range []*farsync.Lease{undone, units, write} {
		require.NoError(t, lease.Release())
	}
	lacked := lock(t, store, "/lacked")
	server.putBack(t)

	began := time.Now()
	require.NoError(t, lock(t, other, "/undone").Release())
	units, err = farsync.NewSemaphore(other, "/units", 1).Acquire(within(t, soon), 1)
	require.NoError(t, err)
	require.NoError(t, units.Release())
	write, err = farsync.NewRWMutex(other, "/write").Lock(within(t, soon))
	require.NoError(t, err)
	t.Logf("free after %v, at a TTL of %v", time.Since(began), long)
	require.NoError(t, write.Release())
	ended(t, lacked)
	require.ErrorIs(t, lacked.Err(), farsync.ErrLost)
	require.NoError(t, kept.Err())
	require.NoError(t, kept.Release())
	require.NoError(t, lock(t, store, "/undone").Release())
}

// TestServiceThatIsEmptiedTellsItsHolders: all keys are removed, and the leases of etcd live on.
func TestServiceThatIsEmptiedTellsItsHolders(t *testing.T) {
	server, admin := beginAlone(t)
	locktest.RunExchange(t, locktest.Exchange{
		Open: func(t *testing.T) *farsync.Store { return newStore(t, server.Endpoint(), ttl(10*time.Second)) },
		Do: func(t *testing.T) {
			_, err := admin.Delete(within(t, soon), "\x00", clientv3.WithFromKey())
			require.NoError(t, err)
		},
		Overlap: true,
	})
}

// TestHolderIsToldThatASnapshotLacksItsLock: the snapshot knows neither the holder's key nor its session.
func TestHolderIsToldThatASnapshotLacksItsLock(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server := newRoughServer(t)
	server.keep(t)
	locktest.RunExchange(t, locktest.Exchange{
		Open:    func(t *testing.T) *farsync.Store { return newStore(t, server.Endpoint(), ttl(24*time.Second)) },
		Do:      server.putBack,
		Overlap: true,
		Falls:   true,
	})
}

// TestHistoryShowsAnEarlierState: with the second renewal at the latest.
func TestHistoryShowsAnEarlierState(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	t.Parallel()
	t.Run("in the term of before, of a lower revision", func(t *testing.T) { testEarlierState(t, 1, 0) })
	t.Run("of the revision of before, in another term", func(t *testing.T) { testEarlierState(t, 2, 5) })
}

// testEarlierState puts back what was so many terms ago, and then makes so many writes.
func testEarlierState(t *testing.T, terms, writes int) {
	server := newRoughServer(t)
	in := openSession(t, newClient(t, server.Endpoint()))
	renew := func() {
		require.Eventually(t, func() bool {
			in.Reset()
			return in.Renew(within(t, soon), nil) == nil
		}, soon, 10*time.Millisecond)
	}
	server.keep(t)
	for range terms - 1 {
		server.restart(t, func() {})
	}
	renew()
	before := in.History()
	renew()
	require.Equal(t, before, in.History())
	in.create(t, "/history", driver.Exclusive)
	server.putBack(t)
	client := newClient(t, server.Endpoint())
	for range writes {
		_, err := client.Put(within(t, soon), "other", "x")
		require.NoError(t, err)
	}
	renew()
	renew()
	require.NotEqual(t, before, in.History())
	t.Log(before, "is", in.History())
}

// TestRestartedServerKeepsItsQueues: it has held an election, so each Store looks for entries that stand again. The
// holder, and those who wait, stay where they are.
func TestRestartedServerKeepsItsQueues(t *testing.T) {
	suite.Long(t, suite.Etcd, "kills the server")
	server := newRoughServer(t)
	var looks counter
	dial := looks.dial()
	open := func() *farsync.Store { return newStore(t, server.Endpoint(), ttl(10*time.Second), dial...) }
	holder := open()
	lease := lock(t, holder, "/queue")
	const waiters = 4
	var waiting []chan *farsync.Lease
	for i := range waiters {
		waiting = append(waiting, lockBehind(t, open(), "/queue"))
		awaitQueue(t, holder, "/queue", i+2)
	}
	before, err := holder.Participants(within(t, soon), "/queue")
	require.NoError(t, err)
	server.restart(t, func() {})
	looks.sinceWhen(t, "Lease/LeaseTimeToLive", waiters+1)
	after, err := holder.Participants(within(t, soon), "/queue")
	require.NoError(t, err)
	require.Len(t, after, waiters+1)
	for i := range after {
		require.Equal(t, before[i].Token, after[i].Token)
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
	for _, w := range waiting {
		require.NoError(t, got(t, w).Release())
	}
}
