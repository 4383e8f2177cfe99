package etcdtest_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/driver"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// crowded are the entries that a queue has where these tests begin, and a few more than make it a long one.
const crowded = 130

// crowd has entries of one session stand in the queue. The first holds, and the second watches it.
func (r row) crowd() (all []*stander) {
	in := r.open()
	for range crowded {
		all = append(all, r.join(in))
	}
	return all
}

// An asked has the messages of a client.
type asked struct {
	mu   sync.Mutex
	list []any
}

func (a *asked) dial() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		a.mu.Lock()
		a.list = append(a.list, in)
		a.mu.Unlock()
		return invoke(ctx, method, in, out, cc, options...)
	})
}

// take returns the messages since the last take.
func (a *asked) take() (list []any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, a.list = a.list, nil
	return list
}

// ranges returns the keys from which on a message asks for more than one.
func ranges(message any) (from []string) {
	switch m := message.(type) {
	case *pb.RangeRequest:
		if len(m.GetRangeEnd()) > 0 {
			from = []string{string(m.GetKey())}
		}
	case *pb.TxnRequest:
		for _, op := range append(m.GetSuccess(), m.GetFailure()...) {
			from = append(from, ranges(op.GetRequestRange())...)
			from = append(from, ranges(op.GetRequestTxn())...)
		}
	}
	return from
}

// TestLongQueueIsNotCounted: whoever joins a long queue that it has joined before, and leaves it, asks for no range of it. The server would count
// all that is in there.
func TestLongQueueIsNotCounted(t *testing.T) {
	r := newRow(t)
	all := r.crowd()
	var sent asked
	in := openSession(t, newClient(t, r.endpoint, sent.dial()))
	r.join(in).leave() // it counts, and gives the holder its turn
	for range 3 {
		sent.take()
		p := r.join(in)
		require.True(t, p.v.Turn)
		require.GreaterOrEqual(t, p.v.Entries[len(p.v.Entries)-1].Ahead+1, crowded)
		p.leave()
		list := sent.take()
		require.Len(t, list, 4, "a join, a delete, a look at the turns, and a turn")
		for _, message := range list {
			for _, from := range ranges(message) {
				require.True(t, strings.HasPrefix(from, r.queue+"!turn/"), from)
			}
		}
		r.turns(all[0])
		if t.Failed() {
			return
		}
		sent.take()
	}
}

// TestLongQueueThatHasEmptied: those that were there before are not, so a join finds itself alone, or behind one that it watches.
func TestLongQueueThatHasEmptied(t *testing.T) {
	r := newRow(t)
	all := r.crowd()
	in := [3]session{r.open(), r.open(), r.open()}
	for i := range in {
		r.join(in[i]).leave()
	}
	for _, p := range slices.Backward(all[1:]) {
		p.leave()
	}
	b := r.join(in[0])
	require.True(t, b.v.All && len(b.v.Entries) == 1 && !b.v.Turn)
	watches := b.waits()
	all[0].leave()
	b.granted(watches)
	b.leave()
	c := r.join(in[1])
	require.True(t, c.v.All && len(c.v.Entries) == 0)
}

// TestEntryOfAnotherProgramInALongQueue: whatever its name, one that joins behind it awaits no turn.
func TestEntryOfAnotherProgramInALongQueue(t *testing.T) {
	for _, name := range []string{"0a", "m-AAAA", "r-AAAA", "zz"} {
		t.Run(name, func(t *testing.T) {
			r := newRow(t)
			r.crowd()
			in := r.open()
			r.join(in).leave()
			r.put(name)
			require.False(t, r.join(in).v.Turn)
		})
	}
}

// TestHolderInALongQueueIsTold: a waiter leaves a long queue, and the holder has its turn. Whatever becomes of that before it is told, the one
// behind is told in the end.
func TestHolderInALongQueueIsTold(t *testing.T) {
	for name, happens := range map[string]func(all []*stander, left *stander, v driver.View){
		"it stays": func(all []*stander, left *stander, v driver.View) {
			left.touch(v)
			all[0].leave()
		},
		"it has left": func(all []*stander, left *stander, v driver.View) {
			all[0].leave()
			left.touch(v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRow(t)
			all := r.crowd()
			watches, waits := all[1].waits(), all[2].waits()
			left := r.joins()
			r.joins().leave() // gives the holder its turn
			happens(all, left, left.out())
			all[1].granted(watches)
			all[1].leave()
			all[2].granted(waits)
		})
	}
}

// TestHolderInALongQueueIsGone: its key was deleted by hand, and its turn was left.
func TestHolderInALongQueueIsGone(t *testing.T) {
	r := newRow(t)
	all := r.crowd()
	watches, waits := all[1].waits(), all[2].waits()
	all[0].leave()
	all[1].granted(watches)
	left := r.joins()
	r.joins().leave()
	r.turns(all[1])
	r.remove(all[1].v.Self)
	left.leave()
	all[2].granted(waits)
}

// TestLaterTurnIsNotReplaced: two have left, and the one that looked first tells the holder last.
func TestLaterTurnIsNotReplaced(t *testing.T) {
	r := newRow(t)
	r.crowd()
	f := new(faults)
	first, second := r.join(openSession(t, newClient(t, r.endpoint, f.dial()...))), r.joins()
	r.joins().leave()
	at := func() int {
		text, _, _ := strings.Cut(string(keysOf(t, r.admin, r.queue+"!turn")[0].Value), "\n")
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	v, now := first.out(), 0
	f.next(txn, func(ctx context.Context, send func(context.Context) (any, error)) error {
		second.leave()
		now = at()
		return loseReply(ctx, send)
	})
	_, err := first.Touch(t.Context(), v)
	require.Error(t, err)
	require.Equal(t, now, at())
}

// TestTurnOfAnEarlierEntryIsNotBelieved: the key of a holder was deleted by hand, and its turn was left. The same key stands in the queue once
// more. It is not told that it is the head.
func TestTurnOfAnEarlierEntryIsNotBelieved(t *testing.T) {
	r := newRow(t)
	all := r.crowd()
	left := r.joins()
	r.joins().leave()
	r.turns(all[0])
	r.remove(all[0].v.Self)
	again := &stander{session: all[0].session, row: r}
	again.create(all[0].v.Self)
	require.Greater(t, again.v.Self.Revision, all[0].v.Self.Revision)
	turn := keysOf(t, r.admin, r.queue+"!turn")[0]
	left.leave()
	for _, kv := range keysOf(t, r.admin, r.queue+"!turn") {
		if string(kv.Key) == string(turn.Key) {
			require.Equal(t, turn.ModRevision, kv.ModRevision)
		}
	}
	r.turns(all[0], all[1])
}

// TestNoneNeedsToLookInALongQueue is TestNoneNeedsToLook among so many that the queue is long.
func TestNoneNeedsToLookInALongQueue(t *testing.T) {
	suite.Long(t, suite.Etcd, "192 contenders race")
	server, admin := begin(t)
	path := newPath(t)
	section := locktest.NewSection(t, 1)
	var all sync.WaitGroup
	for range 12 {
		store := newStore(t, server.Endpoint(), unaided)
		for range 16 {
			all.Go(func() {
				for range 5 {
					contend(t, store, path, section)
				}
			})
		}
	}
	all.Wait()
	require.Empty(t, section.Overlaps())
	spent(t, admin, path)
}

// TestKeyThatIsUsedAgainStaysInTheList: a waiter has left, and its key stands in the queue once more when it tells the head. The turn of the
// head names that, and is put again as it is: without the later entry, the one behind that would be given a turn beside it.
func TestKeyThatIsUsedAgainStaysInTheList(t *testing.T) {
	r := newRow(t)
	all := r.crowd()
	left := r.joins()
	head := all[2]
	for _, p := range all {
		if p != head {
			p.leave()
		}
	}
	v := left.out()
	again := r.join(left.session)
	require.Equal(t, left.v.Self.ID, again.v.Self.ID)
	watches := again.waits()
	last := r.third()
	r.joins().leave() // gives the head its turn, with both in the list
	left.touch(v)
	head.granted(head.waits())
	head.leave()
	again.granted(watches)
	r.turns(again)
	next := last.waits()
	again.leave()
	last.granted(next)
}

// TestTurnThatWasForged lets a waiter in beside the holder, whose key stands. The one that was let in is told, and the
// holder holds on.
func TestTurnThatWasForged(t *testing.T) {
	suite.Long(t, suite.Etcd, "two hold until the second looks at its place, 48 s later at most")
	server, admin := begin(t)
	path := newPath(t)
	holder, err := farsync.NewMutex(newStore(t, server.Endpoint(), nil), path).Lock(within(t, soon))
	require.NoError(t, err)
	between, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := func(ctx context.Context) <-chan *farsync.Lease {
		got := make(chan *farsync.Lease, 1)
		mu := farsync.NewMutex(newStore(t, server.Endpoint(), unaided), path)
		go func() {
			lease, err := mu.Lock(ctx)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			got <- lease
		}()
		return got
	}
	second := waits(between)
	awaitKeys(t, admin, path, 2)
	third := waits(t.Context()) // two are ahead of it, so it awaits its turn
	awaitKeys(t, admin, path, 3)
	list, err := newStore(t, server.Endpoint(), nil).Participants(within(t, soon), path)
	require.NoError(t, err)
	var session clientv3.LeaseID
	_, err = fmt.Sscanf(list[2].Session, "%x", &session)
	require.NoError(t, err)
	forged := path + "!turn/" + strings.TrimPrefix(list[2].ID, path+"/m-")
	_, err = admin.Put(within(t, soon), forged, "0\n", clientv3.WithLease(session))
	require.NoError(t, err)
	lease := <-third
	require.NoError(t, lease.Err())
	require.NoError(t, holder.Err(), "two hold")
	<-lease.Done()
	require.ErrorIs(t, lease.Err(), farsync.ErrLost)
	require.ErrorContains(t, lease.Err(), "is ahead of its entry in the queue")
	require.NoError(t, holder.Err())
	cancel()
	require.Nil(t, <-second)
	require.NoError(t, holder.Release())
}
