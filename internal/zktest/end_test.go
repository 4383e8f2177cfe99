package zktest

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/suite"
	"github.com/farsync/farsync/zk"
)

// TestAnEndThatIsCutOffKeepsNoSession: of what End sends, the server is told the first half, by which the connection becomes that of the session, and
// not the second, which closes it. That renews the session for the shortest time that the server grants, two ticks, and takes away what it had
// left: of the long time that it was opened for, or that late renewals have given it.
func TestAnEndThatIsCutOffKeepsNoSession(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "cuts connections off, and a session has to run out in less than half of its time")
	server, admin := begin(t)
	p := newTap(t, server)
	service, err := zk.NewService([]string{p.addr()}, nil)
	require.NoError(t, err)
	const long = 40 * time.Second
	in, err := service.Open(within(t, soon), long)
	require.NoError(t, err)
	ttl, _ := in.Granted()
	require.Equal(t, long, ttl)
	queue := "/cut-off/" + rand.Text()
	e := create(t, in, queue, driver.Exclusive)
	in.Drop()
	p.onRequest(func(op int32, _ []byte) verdict {
		if op == opClose {
			return sever
		}
		return pass
	})
	begun := time.Now()
	for range 3 { // as a Store does
		err := service.End(within(t, soon), in.Name())
		require.Error(t, err)
		require.Equal(t, driver.Unknown, service.Outcome(err), err)
	}
	require.Equal(t, []string{e.ID}, nodes(t, admin, queue), "the second half has not arrived")
	awaitNodes(t, admin, queue, 0)
	took := time.Since(begun)
	t.Logf("a session of %v was over after %v", long, took)
	require.Less(t, took, long/2)
	p.onRequest(nil)
	require.NoError(t, service.End(within(t, soon), in.Name()), "of a session that is over")
}

// TestASessionIsEndedAtAnyMember: the member that End asks is another than that of the session, whose connection is still there. What the session sends
// by it from then on leaves nothing.
func TestASessionIsEndedAtAnyMember(t *testing.T) {
	suite.Long(t, suite.ZooKeeper, "starts an ensemble")
	begin(t)
	ensemble := embedtest.ZooKeeperEnsemble(t, 3)
	admin := newConn(t, ensemble.Endpoints()...)
	for of := range 3 {
		for at := range 3 {
			t.Run(fmt.Sprint(of, at), func(t *testing.T) {
				own, err := zk.NewService(ensemble.Endpoints()[of:of+1], nil)
				require.NoError(t, err)
				other, err := zk.NewService(ensemble.Endpoints()[at:at+1], nil)
				require.NoError(t, err)
				in, err := own.Open(within(t, soon), 20*time.Second)
				require.NoError(t, err)
				defer in.Drop()
				queue := "/any/" + rand.Text()
				create(t, in, queue, driver.Exclusive)
				await(t, func() bool { return other.End(within(t, soon), in.Name()) == nil })
				_, err = admin.Sync(queue)
				require.NoError(t, err)
				require.Empty(t, nodes(t, admin, queue))
				await(t, func() bool {
					late := driver.Entry{Queue: queue, ID: in.NewID(queue, driver.Exclusive, 1), Kind: driver.Exclusive, Units: 1}
					_, err := in.Create(within(t, soon), late, 0)
					require.Error(t, err)
					return own.Outcome(err) == driver.Expired
				})
				require.Empty(t, nodes(t, admin, queue))
			})
		}
	}
}
