package zktest

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/driver/drivertest"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/electiontest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// suiteTTL is the TTL of both suites. A client keeps it on any machine.
const suiteTTL = 10 * time.Second

// An administrator does on a server what the suites ask for.
type administrator struct {
	*client.Conn
	server string
	seen   *passwords
}

// remove deletes the node of an entry.
func (a administrator) remove(t *testing.T, e driver.Entry) { require.NoError(t, a.Delete(e.ID, -1)) }

// foreign appends a node with a name that sorts ahead of every recipe's.
func (a administrator) foreign(t *testing.T, queue string) driver.Entry {
	return a.append(t, queue, client.FlagEphemeralSequential)
}

// stray is foreign for a node that no session owns.
func (a administrator) stray(t *testing.T, queue string) driver.Entry {
	return a.append(t, queue, client.FlagSequence)
}

func (a administrator) append(t *testing.T, queue string, flags int32) driver.Entry {
	t.Helper()
	persistent(t, a.Conn, queue)
	path, err := a.Create(queue+"/!other-", nil, flags, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	return driver.Entry{Queue: queue, ID: path}
}

// guard returns a write that the owner guards.
func (a administrator) guard(t testing.TB, owner locktest.Owner) func() bool {
	path := "/guarded/" + rand.Text()
	persistent(t, a.Conn, path)
	guard := zk.Guard(owner)
	return func() bool {
		_, err := a.Multi(append(guard, &client.SetDataRequest{Path: path, Version: -1})...)
		if err != nil {
			require.ErrorIs(t, err, client.ErrNoNode)
		}
		return err == nil
	}
}

// expire ends the session that a node belongs to.
func (a administrator) expire(t testing.TB, node string) {
	_, err := a.Sync(node)
	require.NoError(t, err)
	owner := statOf(t, a.Conn, node).EphemeralOwner
	password, ok := a.seen.Load(owner)
	require.True(t, ok)
	await(t, func() bool {
		if endSession(a.server, owner, password.([]byte)) != nil {
			return false // the client has taken its session back
		}
		_, _, err := a.Get(node)
		return errors.Is(err, client.ErrNoNode)
	})
}

// expireSession ends a session, which an entry shows.
func (a administrator) expireSession(t *testing.T, s driver.Session) {
	a.expire(t, create(t, s, "/expire/"+rand.Text(), driver.Exclusive).ID)
}

// TestDriver runs the cases that every driver must pass.
func TestDriver(t *testing.T) {
	server, conn := begin(t)
	admin := administrator{conn, server, new(passwords)}
	var proxies sync.Map // of driver.Service
	drivertest.RunDriver(t, drivertest.Backend{
		TTL:  suiteTTL,
		Case: locktest.Beside,
		Open: func(t *testing.T) driver.Service {
			p := newTap(t, server)
			p.keep(admin.seen)
			proxy := embedtest.NewProxy(t, p.addr())
			service, err := zk.NewService([]string{proxy.Addr()}, nil)
			require.NoError(t, err)
			mute := muteService{service}
			proxies.Store(mute, proxy)
			return mute
		},
		Expire:  admin.expireSession,
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   admin.stray,
		Cut: func(_ *testing.T, s driver.Service, silent bool) {
			proxy, _ := proxies.Load(s)
			if silent {
				proxy.(*embedtest.Proxy).Cut()
			} else {
				proxy.(*embedtest.Proxy).Heal()
			}
		},
		Ordered: true,
	})
}

// A muteService is a driver whose sessions cannot tell. What the suite says of words does not hold: Curator's one word takes
// the place of the value.
type muteService struct{ driver.Service }

func (s muteService) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	opened, err := s.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return muteSession{opened}, nil
}

type muteSession struct{ driver.Session }

func (muteSession) Tell(context.Context, driver.Entry, string) (bool, error) {
	return false, errors.ErrUnsupported
}

// TestPrimitives runs what the primitives do on every service.
func TestPrimitives(t *testing.T) {
	server, conn := begin(t)
	admin := administrator{conn, server, new(passwords)}
	locktest.Run(t, locktest.Backend{
		Case: locktest.Beside, Forgets: true, // the size is in the node of the queue, a container
		Open: func(t *testing.T) *farsync.Store {
			p := newTap(t, server)
			p.keep(admin.seen)
			options := *withTTL(suiteTTL)
			options.Trace = drivertest.CheckTrace(t)
			return newStore(t, p.addr(), &options)
		},
		Expire: func(t *testing.T, store *farsync.Store) {
			lease := lock(t, store, "/expire/"+rand.Text())
			admin.expire(t, nodeOf(t, lease))
			_ = lease.Release() // lost
		},
		Delete:  admin.remove,
		Foreign: admin.foreign,
		Stray:   admin.stray,
		Guard:   func(t *testing.T, owner locktest.Owner) func() bool { return admin.guard(t, owner) },
	})
}

// TestGuardOfAnEndedLeaseRefusesWhateverIsThere: it must not hang on a name that a client can make.
func TestGuardOfAnEndedLeaseRefusesWhateverIsThere(t *testing.T) {
	server, conn := begin(t)
	lease := lock(t, newStore(t, server, nil), "/guard/ended")
	require.NoError(t, lease.Release())
	check := zk.Guard(lease)[0].(*client.CheckVersionRequest)
	_, err := conn.Create(check.Path, nil, client.FlagEphemeral, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	_, err = conn.Multi(zk.Guard(lease)...)
	require.ErrorIs(t, err, client.ErrNoNode)
}

var cuts = flag.Int("cuts", 50, "holders that are cut off from the server")

// TestLeaseEndsBeforeTheNextHolderIsGranted cuts the line between clients and their server.
func TestLeaseEndsBeforeTheNextHolderIsGranted(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "cuts holders with a TTL of 3 s off from the server")
	server, _ := begin(t)
	const ttl = 3 * time.Second
	locktest.RunLosses(t, locktest.Losses{
		TTL: ttl, Holders: *cuts, Next: newStore(t, server, withTTL(40*time.Second)),
		Open: func(t *testing.T, i int) (*farsync.Store, func()) {
			proxy := embedtest.NewProxy(t, server)
			cut := proxy.Cut
			if i%2 == 1 {
				cut = proxy.CutReplies
			}
			return newStore(t, proxy.Addr(), withTTL(ttl)), cut
		},
	})
}

func TestOpensThatAreGivenUp(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "callers give up at random moments, 200 times, with a TTL of 1 s")
	server, _ := begin(t)
	p, seen := newTap(t, server), new(passwords)
	p.keep(seen)
	locktest.RunOpens(t, func(ctx context.Context) (*farsync.Store, error) {
		return zk.Open(ctx, []string{p.addr()}, withTTL(time.Second))
	}, func() int {
		list, err := sharedServer(t).FourLetter(within(t, soon), "dump")
		require.NoError(t, err)
		return seen.in(list)
	})
}

// TestNobodyWaitsForWhatAHungServerKeeps: the server hangs for most of a TTL, and goes on with renewals of sessions that their clients have lost.
func TestNobodyWaitsForWhatAHungServerKeeps(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "stops the server for most of a TTL of 15 s")
	begin(t)
	server := embedtest.ZooKeeper(t)
	locktest.RunHung(t, locktest.Hung{
		Open: func(t *testing.T, o farsync.Options) *farsync.Store {
			return newStore(t, server.Endpoint(), &zk.Options{Options: o})
		},
		TTL: locktest.HungTTL, Long: 40 * time.Second, // the longest that the server grants
		Freeze: server.Pause, Resume: server.Resume,
	})
}

// TestCallsThatNobodyAnswersReturn: the server takes connections and requests, and answers nothing. Every call is back when
// its ctx ends, or its own bound is met; and when the server goes on, nothing is left of any. Then the server is started anew:
// holder and waiter go on as if nothing had been.
func TestCallsThatNobodyAnswersReturn(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "stops the server and starts it anew")
	begin(t)
	server := embedtest.ZooKeeper(t)
	locktest.RunFrozen(t, locktest.Frozen{
		Open: func(t *testing.T, ttl time.Duration) *farsync.Store {
			return newStore(t, server.Endpoint(), withTTL(ttl))
		},
		Long:   40 * time.Second, // the longest that the server grants
		Short:  3 * time.Second,
		Freeze: server.Pause,
		Resume: server.Resume,
		Late:   soon,
	})
	holder, waiter := newTapped(t, server.Endpoint(), withTTL(20*time.Second)), newTapped(t, server.Endpoint(), withTTL(20*time.Second))
	lease := lock(t, holder.Store, "/restart")
	granted := lockBehind(t, waiter.Store, "/restart")
	waiter.tap.await(t, opGetData, 1)
	sessions := []int64{holder.tap.sessionID(), waiter.tap.sessionID()}
	require.NoError(t, server.Restart(within(t, 2*soon)))
	require.NoError(t, lease.Err())
	require.Empty(t, granted)
	require.NoError(t, lease.Release())
	require.NoError(t, got(t, granted).Release())
	require.Equal(t, []int64{holder.tap.sessionID(), waiter.tap.sessionID()}, sessions)
}

const (
	electionTTL     = 2 * time.Second
	serversVariable = "FARSYNC_ELECTION_ZOOKEEPER"
)

// An electionControl is what happens to a Store behind a proxy and a tap of its own.
type electionControl struct {
	*embedtest.Proxy
	administrator
	store *farsync.Store
}

// Expire ends the session that a node shows to be the client's: the tap itself knows only of the last handshake, which
// may be one with a session that is over. It holds the client back meanwhile: if that came back first, the server would
// hang up on the tap instead.
func (c electionControl) Expire(t testing.TB) {
	lease := lock(t, c.store, "/expire/"+rand.Text())
	c.Cut()
	defer c.Heal()
	c.expire(t, nodeOf(t, lease))
}

func TestElectionsOnAnEnsemble(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "cuts off and kills candidates with a TTL of 2 s, on an ensemble")
	begin(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	admin := newConn(t, ensemble.Member(0).Endpoint())
	var opened atomic.Int64
	seen := new(passwords)
	open := func(t testing.TB, ttl time.Duration, wrap ...func(driver.Service) driver.Service) electiontest.Client {
		server := ensemble.Endpoints()[opened.Add(1)%3]
		p := newTap(t, server)
		p.keep(seen)
		proxy := embedtest.NewProxy(t, p.addr())
		service, err := zk.NewService([]string{proxy.Addr()}, nil)
		require.NoError(t, err)
		for _, over := range wrap {
			service = over(service)
		}
		store, err := farsync.Open(within(t, soon), service, &farsync.Options{TTL: ttl})
		require.NoError(t, err)
		t.Cleanup(func() { _ = store.Close() })
		return electiontest.Client{Store: store, Control: electionControl{proxy, administrator{admin, server, seen}, store}}
	}
	electiontest.Run(t, electiontest.Cluster{
		TTL:  electionTTL,
		Open: open,
		Delete: func(t testing.TB, e driver.Entry) {
			if err := admin.Delete(e.ID, -1); err != nil {
				require.ErrorIs(t, err, client.ErrNoNode)
			}
		},
		Command: func() *exec.Cmd {
			command := exec.Command(os.Args[0], "-test.run=^TestElectionProcess$")
			command.Env = append(os.Environ(), serversVariable+"="+strings.Join(ensemble.Endpoints(), ","))
			return command
		},
	})
}

// TestElectionProcess is the main of a process that TestElectionsOnAnEnsemble starts, and otherwise nothing.
func TestElectionProcess(t *testing.T) {
	if !electiontest.IsProcess() {
		return
	}
	servers := strings.Split(os.Getenv(serversVariable), ",")
	store, err := zk.Open(within(t, soon), servers, withTTL(electionTTL))
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, electiontest.Play(store))
}
