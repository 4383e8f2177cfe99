package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// This file has the half of a semaphore's queue in which whatever leaves tells those that it makes room for. docs/MODEL.md has the protocol,
// under "A release that tells whom it lets in".
//
// A permit of such a client is <queue>/s<units>-<time>t<lease>, and its turn <queue>!turn/t<lease>.<time>, under the lease of the permit. A turn
// of a permit is a hint: it has no value and proves nothing, so its entry looks at the queue and grants itself by the same rule as any other.
// What could go wrong here is that one which fits is not told. It then looks by itself when it has waited for long.
//
// At one revision the permits that fit are a beginning of the queue. Three things change which: an entry is removed, the register is written,
// an entry joins at the tail. One that waits for its turn hears of each write of the register, and nothing else that is written concerns it
// but removals. Every removal by a client that knows turns shows the queue and the register at the revision of the removal itself. So it knows
// the queue before it and after it, and the entries that fit after it and did not before it are exactly those that this removal lets in. No two
// removals have one revision, so each entry that waits is let in by one of them, and told by that: two that release at once neither both tell
// it nor leave it to one another, however late their turns are put. An entry that is let in and has gone before it is told was removed as well,
// and whatever removed it has told those that it let in.
//
// A waiter that gives up is such a removal: it may have kept others from fitting. So is the removal of what a late join has made.

const (
	// leaseLen is the length of a lease in the id of a permit.
	leaseLen = 16
	// mostTold bounds the turns that are put in one transaction. A server carries out 128 operations in one.
	mostTold = 64
	// mostUnsure bounds those that are told because it is not known which of them a removal has let in.
	mostUnsure = 2 * mostTold
)

// permitID is the id of a permit that knows turns. No two of a session have the same time, whatever its clock does, and no two sessions the
// same lease. All have the same length, so that none is the beginning of another.
func (s *session) permitID() string {
	for {
		last, now := s.timed.Load(), time.Now().UnixMicro()
		now = max(now, last+1)
		if s.timed.CompareAndSwap(last, now) {
			return permitID(time.UnixMicro(now), s.lease)
		}
	}
}

func permitID(at time.Time, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%s%0*x", timeText(at), turnMark, leaseLen, int64(lease))
}

// permitName returns what the last segment of the key of a permit that knows turns says: its lease, and its time as it stands there. ok is
// false for all other names.
func permitName(name string) (lease clientv3.LeaseID, at string, ok bool) {
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, id, _ := strings.Cut(name, "-")
	if len(id) != timeLen+len(turnMark)+leaseLen || id[timeLen:timeLen+len(turnMark)] != turnMark {
		return 0, "", false
	}
	at, text := id[:timeLen], id[timeLen+len(turnMark):]
	if strings.Trim(at, digits) != "" || strings.Trim(text, "0123456789abcdef") != "" { // there is one way to write it
		return 0, "", false
	}
	kind, _ := parseKind(name)
	number, err := strconv.ParseInt(text, 16, 64)
	return clientv3.LeaseID(number), at, kind == driver.Permit && number > 0 && err == nil
}

// knows reports whether an entry is a permit that knows turns.
func knows(e driver.Entry) bool {
	_, _, ok := permitName(e.ID)
	return ok
}

// toldByAll reports whether a permit that has joined, and does not fit, will be told when it does: all that is ahead was shown, and is of
// clients that tell. It must have been shown the size, too, for the size that it waits by has to be the one that those who leave know, or
// to be written later.
func toldByAll(v driver.View) bool {
	tells := func(e driver.Entry) bool { return !knows(e) }
	return knows(v.Self) && v.All && len(v.Entries) > 0 && v.Register.Version != 0 && !slices.ContainsFunc(v.Entries, tells)
}

// sizeIn returns the size that counts, of a register, or 0 if it says none. Then nothing that is there fits, and nothing has to be told: those that
// wait hear of the write of a size.
func sizeIn(r driver.Register) int64 {
	var declared, current int64
	if n, err := fmt.Sscanf(r.Value, "%d %d", &declared, &current); err != nil || n != 2 {
		return 0
	}
	return current
}

// letIn returns the entries that fit into the size when gone has been removed from a queue, and did not while it was there. The queue is what is
// left, oldest first, or as much of it as fits. Plain ones are not returned, for they watch.
//
// An entry fits if there is room for it and for all ahead of it. With gone, those behind that had as much less room as gone has units: so
// those are let in for which less room is left than that.
func letIn(size int64, queue []driver.Entry, gone driver.Entry) (list []driver.Entry) {
	room := size // not a sum of units, which could be too large for its type
	for _, e := range queue {
		if e.Kind != driver.Permit || e.Units > room {
			break
		}
		if room -= e.Units; room < gone.Units && byRevision(gone, e) < 0 && knows(e) {
			list = append(list, e)
		}
	}
	return list
}

// fitting returns all entries that fit, but plain ones.
func fitting(size int64, queue []driver.Entry) []driver.Entry {
	return letIn(size, queue, driver.Entry{Units: math.MaxInt64})
}

// depart removes a permit that knows turns, and shows what it lets in. That is one transaction: a look after it would show what others have
// removed in between, and each of two that leave at once could take the other for the one that has let in a third.
//
// The View is for Touch. Its Self is the entry that was removed, in the version at which it was: the revision of the removal. Version is 0 if
// that is not known, for this attempt has found nothing: an earlier one may have been carried out, and its answer lost.
//
// The queue is shown in the order of keys, for a server that sorts in a transaction holds up its writes. If that is not all of it,
// Touch looks, behind the back of the caller.
func (s *session) depart(ctx context.Context, e driver.Entry) (v driver.View, found bool, err error) {
	place, _, err := s.leaving(ctx, e)
	if place.revision == 0 {
		return v, false, err
	}
	e.Revision, e.Version = place.revision, 0
	e.Kind, e.Units = parseKind(strings.TrimPrefix(e.ID, prefix(e.Queue)))
	resp, err := s.transact(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		txnOp(&pb.TxnRequest{Compare: []*pb.Compare{own(e)}, Success: []*pb.RequestOp{deleteOp(e.ID, false)}}),
		deleteOp(turnKey(e), false), // a permit's key is not used again, so it is this one's, however late this is carried out
		lookAt(e.Queue, pageSize),
		getOp(sizeKey(e.Queue)),
	}})
	if err != nil {
		return v, false, s.over(err)
	}
	page := resp.Responses[2].GetResponseRange()
	v.Register = register(resp.Responses[3].GetResponseRange().Kvs)
	if found = resp.Responses[0].GetResponseTxn().Succeeded; found {
		e.Version = resp.Header.Revision
	}
	v.Self, v.Turn = e, true
	if found && !page.More {
		v.Entries = letIn(sizeIn(v.Register), entriesOf(e.Queue, page.Kvs), e)
		v.Turn = len(v.Entries) > 0
	}
	if v.Turn {
		s.spare.owes(line{e.Queue, driver.Permit})
	}
	s.spare.left(e, false)
	return v, found, nil
}

// touchFitting gives permits their turns: those of v, or those that a look shows. One that has gone in the meantime is passed over, and the others
// are told all the same. One that has its turn is not told again, so an attempt whose answer was lost may be repeated. Where there are more than
// one transaction takes, touchFitting returns a View with the rest.
func (s *session) touchFitting(ctx context.Context, v driver.View) (driver.View, error) {
	list := v.Entries
	if len(list) == 0 {
		var err error
		if list, err = s.lookForFitting(ctx, v); err != nil {
			return driver.View{}, s.over(err)
		}
	}
	now := list[:min(len(list), mostTold)]
	err := s.putTurns(ctx, now)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // a key that another program made: its name lies
		err = nil
		for i := range now {
			if one := s.putTurns(ctx, now[i:i+1]); !errors.Is(one, rpctypes.ErrLeaseNotFound) {
				err = cmp.Or(err, one)
			}
		}
	}
	if err != nil {
		return driver.View{}, s.over(err)
	}
	if len(now) < len(list) {
		v.Entries = list[len(now):]
		return v, nil
	}
	s.spare.paid(line{v.Self.Queue, driver.Permit})
	return driver.View{}, nil
}

// putTurns puts the turns of entries that are there and have none.
func (s *session) putTurns(ctx context.Context, list []driver.Entry) error {
	if len(list) == 0 {
		return nil
	}
	txn := new(pb.TxnRequest)
	for _, e := range list {
		lease, _, _ := permitName(e.ID)
		txn.Success = append(txn.Success, txnOp(&pb.TxnRequest{
			Compare: []*pb.Compare{own(e), untouched(e)}, Success: []*pb.RequestOp{putOp(turnKey(e), "", lease)},
		}))
	}
	_, err := s.transact(ctx, txn)
	return err
}

// lookForFitting returns those that are to be told after a removal. Where the revision of that is known, it looks at that revision, which shows
// exactly those that were let in. Where it is not, or the server does not have it any more, it takes all that fit now, of which some have
// long been told: what was let in then fits now, or has gone, or the register was written since, of which it hears.
//
// Of many that fit, it tells the youngest. Those that have been let in are among them, mostly, and a permit that holds without having
// waited was never told.
func (s *session) lookForFitting(ctx context.Context, v driver.View) ([]driver.Entry, error) {
	if v.Self.Version > 0 {
		size := sizeIn(v.Register)
		list, err := s.oldestFitting(ctx, v.Self.Queue, size, v.Self.Version)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return letIn(size, list, v.Self), err
		}
	}
	resp, err := s.attempt(ctx, clientv3.OpGet(sizeKey(v.Self.Queue)))
	if err != nil {
		return nil, err
	}
	size := sizeIn(register(resp.Get().Kvs))
	list, err := s.oldestFitting(ctx, v.Self.Queue, size, 0)
	list = fitting(size, list)
	return list[max(0, len(list)-mostUnsure):], err
}

// oldestFitting reads the oldest entries of a queue at a revision, or now if that is 0: as many as may fit.
func (s *session) oldestFitting(ctx context.Context, queue string, size, at int64) ([]driver.Entry, error) {
	if size < 1 {
		return nil, nil
	}
	read := func(limit int64) ([]*mvccpb.KeyValue, bool, error) {
		resp, err := s.attempt(ctx, clientv3.OpGet(prefix(queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(at),
			clientv3.WithLimit(limit), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)))
		page := (*pb.RangeResponse)(resp.Get())
		return page.GetKvs(), page.GetMore(), err
	}
	kvs, more, err := read(size)
	list := entriesOf(queue, kvs)
	if more && int64(len(list)) < size { // keys of queues further down come first
		kvs, _, err = read(0)
		list = entriesOf(queue, kvs)
	}
	return list, err
}
