package zk_test

import (
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/recipe"
	"github.com/farsync/farsync/storetest"
	"github.com/farsync/farsync/zk"
)

// A tapped is a Store with a tap of its own.
type tapped struct {
	*zk.Store
	tap *tap
}

func TestContract(t *testing.T) {
	noLeaks(t)
	storetest.Run(t, newBackend(t))
}

func TestPrimitives(t *testing.T) {
	noLeaks(t)
	locktest.Run(t, newBackend(t))
}

// newBackend returns a server as the suites need it.
func newBackend(t *testing.T) storetest.Backend {
	server := embedtest.ZooKeeper(t)
	conn := newConn(t, server.Endpoint())
	return storetest.Backend{
		Open: func(t *testing.T) storetest.Client {
			p := newTap(t, server.Endpoint())
			return tapped{newStore(t, p.addr(), &zk.Options{TTL: 2 * time.Second}), p}
		},
		Expire: func(t *testing.T, c storetest.Client) { c.(tapped).tap.expire(t) },
		Delete: func(t *testing.T, e recipe.Entry) { require.NoError(t, conn.Delete(e.ID, -1)) },
		Foreign: func(t *testing.T, queue string) recipe.Entry {
			return foreign(t, conn, queue, client.FlagEphemeralSequential)
		},
		Stray: func(t *testing.T, queue string) recipe.Entry {
			return foreign(t, conn, queue, client.FlagSequence)
		},
	}
}

// foreign appends a node with a name that sorts ahead of every recipe's.
func foreign(t *testing.T, conn *client.Conn, queue string, flags int32) recipe.Entry {
	t.Helper()
	for i := 1; i <= len(queue); i++ {
		if i == len(queue) || queue[i] == '/' {
			_, err := conn.Create(queue[:i], nil, 0, client.WorldACL(client.PermAll))
			if err != nil {
				require.ErrorIs(t, err, client.ErrNodeExists)
			}
		}
	}
	path, err := conn.Create(queue+"/!other-", nil, flags, client.WorldACL(client.PermAll))
	require.NoError(t, err)
	return recipe.Entry{Queue: queue, ID: path}
}
