package zktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
)

// A transactionLog is a file of transactions, as ZooKeeper's FileTxnLog writes them.
type transactionLog struct {
	bytes.Buffer
	last int64 // the zxid of the youngest
}

// newTransactionLog returns a log whose first transaction comes after all that a server has done which has done little.
func newTransactionLog() *transactionLog {
	l := &transactionLog{last: 1 << 20}
	l.WriteString("ZKLG")
	l.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, 2), 0)) // version, database
	return l
}

// add adds a transaction: TxnHeader, and what belongs to the operation.
func (l *transactionLog) add(op int32, body []byte) {
	l.last++
	const session, request = 1, 1
	p := binary.BigEndian.AppendUint64(nil, session)
	p = binary.BigEndian.AppendUint32(p, request)
	p = binary.BigEndian.AppendUint64(p, uint64(l.last))
	p = binary.BigEndian.AppendUint64(p, uint64(time.Now().UnixMilli()))
	p = append(binary.BigEndian.AppendUint32(p, uint32(op)), body...)
	l.Write(binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(p))))
	l.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
	l.Write(append(p, 'B'))
}

func text(p []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(p, uint32(len(s))), s...)
}

// create adds a node that anyone may use. It sets the counter of the node above, unless that is higher.
func (l *transactionLog) create(op int32, path string, counter int32) {
	p := text(text(nil, path), "")
	p = binary.BigEndian.AppendUint32(p, 1)
	p = text(text(binary.BigEndian.AppendUint32(p, client.PermAll), "world"), "anyone")
	if op == opCreate {
		p = append(p, 0) // not ephemeral
	}
	l.add(op, binary.BigEndian.AppendUint32(p, uint32(counter)))
}

// lastNumber is the highest that the server's counter reaches.
const lastNumber = math.MaxInt32

// kept is a child of a queue without a meaning there. While it exists, a container is not collected.
const kept = "kept"

// A worn node is one whose counter is near its end.
type worn struct {
	path string
	op   int32 // that has made it
	next int32 // the number of its next child
}

// newWorn returns a server with worn nodes.
func newWorn(t *testing.T, list []worn) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "zookeeper")
	ensemble, err := embedtest.StartZooKeeper(within(t, soon), dir, 1)
	if errors.Is(err, embedtest.ErrNoZooKeeper) {
		missing(t, err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ensemble.Close()) })
	server := ensemble.Member(0)
	server.Kill() // it has written a snapshot, without which a log would be refused
	log := newTransactionLog()
	log.create(opCreate, "/end", 1)
	for _, node := range list {
		log.create(node.op, node.path, 1)
		log.create(opCreate, node.path+"/"+kept, node.next)
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "m0", "data", "version-2", "snapshot.*"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	name := filepath.Join(filepath.Dir(snapshots[0]), fmt.Sprintf("log.%x", newTransactionLog().last+1))
	require.NoError(t, os.WriteFile(name, log.Bytes(), 0o600))
	require.NoError(t, server.Restart(within(t, soon)))
	return server.Endpoint()
}

// numberOf returns what the server has put behind an entry's name.
func numberOf(t *testing.T, lease *farsync.Lease) string {
	t.Helper()
	node := nodeOf(t, lease)
	return node[strings.LastIndexAny(node, "-_")+1:]
}

// TestEndOfTheCounterRefuses: the server gives the last number of its counter to every further node, and negative ones to some that
// are made at once. Whoever comes then has no place in the queue, whatever it wants, and is told so. Nobody is granted beside
// the holder. Once the queue has drained, counting begins anew, by itself if its node is a container.
func TestEndOfTheCounterRefuses(t *testing.T) {
	t.Parallel()
	type acquire func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error)
	kinds := map[string]acquire{
		"mutex": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).Lock(ctx)
		},
		"try": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewMutex(store, path).TryLock(ctx)
		},
		"writer": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).Lock(ctx)
		},
		"reader": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewRWMutex(store, path).RLock(ctx)
		},
		"permit": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewSemaphore(store, path, 40).Acquire(ctx, 1)
		},
		"candidate": func(ctx context.Context, store *farsync.Store, path string) (*farsync.Lease, error) {
			return farsync.NewElection(store, path).Campaign(ctx, "")
		},
	}
	var all []worn
	for kind := range kinds {
		all = append(all, worn{"/end/" + kind, opCreate, lastNumber - 1})
		if kind == "mutex" || suite.More(t, suite.ZooKeeper) { // the server looks for empty containers every two seconds
			all = append(all, worn{"/end/" + kind + "-container", opContainer, lastNumber - 1})
		}
	}
	const peers = "/end/peers"
	server := newWorn(t, append(all, worn{peers, opCreate, lastNumber}))
	admin := newConn(t, server)
	var stores []*farsync.Store
	for range 13 {
		stores = append(stores, newStore(t, server, withTTL(longest)))
	}
	t.Run("beside another client's lock", func(t *testing.T) {
		theirs, err := admin.Create(peers+"/_c_zzzzzzzz-lock-", nil, client.FlagEphemeralSequential, client.WorldACL(client.PermAll))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(peers, "/_c_zzzzzzzz-lock-", lastNumber), theirs)
		for _, store := range stores { // of which most sort ahead of that node
			_, err := farsync.NewMutex(store, peers).Lock(within(t, soon))
			require.ErrorContains(t, err, "the counter of the queue's node is exhausted")
		}
		require.ElementsMatch(t, []string{theirs, peers + "/" + kept}, nodes(t, admin, peers))
	})
	for _, worn := range all {
		t.Run(filepath.Base(worn.path), func(t *testing.T) {
			path, op := worn.path, worn.op
			get := kinds[strings.TrimSuffix(filepath.Base(path), "-container")]
			holder, err := get(within(t, soon), stores[0], path)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(lastNumber-1), numberOf(t, holder))
			refused := func(store *farsync.Store) error {
				lease, err := get(within(t, soon), store, path)
				switch {
				case err == nil:
					return fmt.Errorf("%s is granted beside %s", nodeOf(t, lease), nodeOf(t, holder))
				case !strings.Contains(err.Error(), "the counter of the queue's node is exhausted") && !errors.Is(err, farsync.ErrLocked):
					return err
				}
				return nil
			}
			told := make(chan error, len(stores))
			for _, store := range stores[1:] {
				go func() { told <- refused(store) }() // read below
			}
			for range stores[1:] {
				require.NoError(t, got(t, told))
			}
			require.NoError(t, holder.Err())
			require.ElementsMatch(t, []string{nodeOf(t, holder), path + "/" + kept}, nodes(t, admin, path), "who was refused has left nothing")
			require.NoError(t, holder.Release())

			_, err = get(within(t, soon), stores[1], path)
			require.ErrorContains(t, err, "the counter of the queue's node is exhausted", "there is nobody to wait for, and no place")
			require.NoError(t, admin.Delete(path+"/"+kept, -1))
			if op == opCreate {
				_, err = get(within(t, soon), stores[1], path)
				require.ErrorContains(t, err, "the counter of the queue's node is exhausted")
				require.NoError(t, admin.Delete(path, -1))
			} else {
				await(t, func() bool {
					there, _, err := admin.Exists(path)
					return err == nil && !there
				})
			}
			again, err := get(within(t, soon), stores[1], path)
			require.NoError(t, err)
			require.Equal(t, "0000000000", numberOf(t, again))
			require.NoError(t, again.Release())
		})
	}
}
