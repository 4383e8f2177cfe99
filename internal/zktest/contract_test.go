package zktest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/storetest"
	"github.com/farsync/farsync/zk"
)

// suiteTTL is four ticks of the test's servers.
const suiteTTL = 2 * time.Second

// A tapped is a Store with a tap of its own.
type tapped struct {
	*farsync.Store
	tap *tap
}

// TestDriver leaves out what is said of words: they are Curator's one word, in place of the value.
func TestDriver(t *testing.T) {
	noLeaks(t)
	server := embedtest.ZooKeeper(t)
	conn := newConn(t, server.Endpoint())
	var passwords sync.Map
	var proxies sync.Map
	storetest.RunDriver(t, storetest.Backend{
		TTL: suiteTTL,
		Open: func(t *testing.T) driver.Service {
			p := newTap(t, server.Endpoint())
			keepPasswords(p, &passwords)
			proxy := embedtest.NewProxy(t, p.addr())
			service, err := zk.NewService([]string{proxy.Addr()}, nil)
			require.NoError(t, err)
			mute := muteService{service}
			proxies.Store(mute, proxy)
			return mute
		},
		Expire: func(t *testing.T, s driver.Session) { expireSession(t, server.Endpoint(), conn, &passwords, s) },
		Delete: func(t *testing.T, e driver.Entry) { require.NoError(t, conn.Delete(e.ID, -1)) },
		Foreign: func(t *testing.T, queue string) driver.Entry {
			return foreign(t, conn, queue, client.FlagEphemeralSequential)
		},
		Stray: func(t *testing.T, queue string) driver.Entry {
			return foreign(t, conn, queue, client.FlagSequence)
		},
		Cut: func(t *testing.T, s driver.Service, silent bool) {
			found, _ := proxies.Load(s)
			if proxy := found.(*embedtest.Proxy); silent {
				proxy.Cut()
			} else {
				proxy.Heal()
			}
		},
		Ordered: true,
	})
}

// A muteService is a driver whose sessions cannot tell.
type muteService struct{ driver.Service }

func (s muteService) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	opened, err := s.Service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return muteSession{opened}, nil
}

type muteSession struct{ driver.Session }

func (muteSession) Tell(context.Context, driver.Entry, string) error { return errors.ErrUnsupported }

// expireSession ends a session at the server. An entry shows which it is.
func expireSession(t testing.TB, server string, conn *client.Conn, passwords *sync.Map, s driver.Session) {
	queue := "/expire/" + rand.Text()
	v, err := s.Create(within(t, soon), driver.Entry{
		Queue: queue, ID: s.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1,
	}, 0)
	require.NoError(t, err)
	expireOwner(t, server, conn, passwords, v.Self.ID)
}

// expireOwner ends the session that a node belongs to.
func expireOwner(t testing.TB, server string, conn *client.Conn, passwords *sync.Map, node string) {
	_, err := conn.Sync(node)
	require.NoError(t, err)
	owner := statOf(t, conn, node).EphemeralOwner
	password, ok := passwords.Load(owner)
	require.True(t, ok)
	await(t, func() bool {
		if endSession(server, owner, password.([]byte)) != nil {
			return false // the client has taken its session back
		}
		_, _, err := conn.Get(node)
		return errors.Is(err, client.ErrNoNode)
	})
}

// keepPasswords has the tap note the passwords of all sessions that go through it.
func keepPasswords(p *tap, passwords *sync.Map) {
	p.onReply(func(op int32, frame []byte) verdict {
		if op == opConnect {
			passwords.Store(int64(binary.BigEndian.Uint64(frame[12:])), bytes.Clone(frame[24:40]))
		}
		return pass
	})
}

func TestPrimitives(t *testing.T) {
	noLeaks(t)
	server := embedtest.ZooKeeper(t)
	conn := newConn(t, server.Endpoint())
	var taps sync.Map // by Store
	locktest.Run(t, locktest.Backend{
		Open: func(t *testing.T) *farsync.Store {
			p := newTap(t, server.Endpoint())
			store := newStore(t, p.addr(), withTTL(suiteTTL))
			taps.Store(store, p)
			return store
		},
		Expire: func(t *testing.T, store *farsync.Store) {
			p, _ := taps.Load(store)
			p.(*tap).expire(t)
		},
		Delete: func(t *testing.T, e driver.Entry) { require.NoError(t, conn.Delete(e.ID, -1)) },
		Foreign: func(t *testing.T, queue string) driver.Entry {
			return foreign(t, conn, queue, client.FlagEphemeralSequential)
		},
		Stray: func(t *testing.T, queue string) driver.Entry {
			return foreign(t, conn, queue, client.FlagSequence)
		},
	})
}

// foreign appends a node with a name that sorts ahead of every recipe's.
func foreign(t *testing.T, conn *client.Conn, queue string, flags int32) driver.Entry {
	t.Helper()
	persistent(t, conn, queue)
	path, err := conn.Create(queue+"/!other-", nil, flags, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	return driver.Entry{Queue: queue, ID: path}
}
