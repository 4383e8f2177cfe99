package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

// This file has the half of a mutex's queue in which a release names the next holder. docs/reports/MODEL.md has the protocol,
// under "A release that names the next", with what goes wrong where a condition is left out.
//
// An entry of such a client is <queue>/m-t<lease>.<n>. Its turn is the key <queue>!turn/t<lease>.<n>, under the lease
// of the entry, so that it goes with the session; the lease is in the name, for a read of keys alone does not show it.
// A turn says what stands behind the entry. All other entries are plain: they do not understand turns. These are the
// entries of other programs, of earlier versions, of primitives that are no mutex, and where the server has
// authentication switched on. No mutex gives a plain entry a turn, and an entry that joins behind a plain entry watches
// its predecessor.

const (
	turnMark   = "t" // begins the id of an entry that knows turns. It sorts behind the ids of all others that are mutexes.
	turnBegin  = "m-" + turnMark
	turnEnd    = "m-u" // the first name behind all that begin with turnBegin
	turnSuffix = "!turn"
	// mostNext is how many entries a turn names.
	mostNext = 16
	// mostTouches bounds the queues that Close hands over at the same time.
	mostTouches = 16
)

// turnsOf is what the ids of the entries of a session begin with.
func turnsOf(lease clientv3.LeaseID) string {
	return turnMark + strconv.FormatInt(int64(lease), 16) + "."
}

// turnID is the id of an entry. All have the same length, so that none is the beginning of another.
func turnID(lease clientv3.LeaseID, n uint64) string {
	return fmt.Sprintf("%s%010x", turnsOf(lease), n)
}

// turnLease returns the lease of an entry that knows turns. ok is false for a plain one.
func turnLease(id string) (lease clientv3.LeaseID, ok bool) {
	name, ok := strings.CutPrefix(id[strings.LastIndexByte(id, '/')+1:], turnBegin)
	if !ok {
		return 0, false
	}
	text, n, ok := strings.Cut(name, ".")
	if !ok || text == "" || n == "" || text[0] == '0' || strings.Trim(text, "0123456789abcdef") != "" { // there is one way to write it
		return 0, false
	}
	number, err := strconv.ParseInt(text, 16, 64)
	return clientv3.LeaseID(number), err == nil
}

// plain reports whether an entry is no mutex that knows turns.
func plain(e driver.Entry) bool {
	_, ok := turnLease(e.ID)
	return !ok
}

// turnKey is where the turn of an entry is. All of a session lie side by side.
func turnKey(e driver.Entry) string {
	name := strings.TrimPrefix(e.ID, prefix(e.Queue))
	return prefix(e.Queue+turnSuffix) + strings.TrimPrefix(name, "m-")
}

// entryOfTurn returns the entry that a turn is for, without its revision. It is plain if another program made the key
// of the turn. Stores of an earlier version give permits turns in the same place: the entry that is returned for one
// never was, and no key has its name.
func entryOfTurn(queue string, turn *mvccpb.KeyValue) driver.Entry {
	name := strings.TrimPrefix(string(turn.Key), prefix(queue+turnSuffix))
	return driver.Entry{Queue: queue, ID: prefix(queue) + "m-" + name, Kind: driver.Exclusive}
}

// turnText returns the value of a turn: the revision at which its entry was seen to be the head, 0 where that is the
// revision of the turn; and what is known to stand behind, oldest first, a line each with a name and a create revision.
// All entries behind an entry that is left out are left out, too.
func turnText(at int64, behind []driver.Entry) string {
	var text strings.Builder
	text.WriteString(strconv.FormatInt(at, 10) + "\n")
	for _, e := range behind[:min(len(behind), mostNext)] {
		name := strings.TrimPrefix(e.ID, prefix(e.Queue))
		if strings.ContainsAny(name, " \n") {
			break
		}
		text.WriteString(name + " " + strconv.FormatInt(e.Revision, 10) + "\n")
	}
	return text.String()
}

// parseTurn undoes turnText. There may be no turn: then all it returns is zero.
func parseTurn(queue string, turn *mvccpb.KeyValue) (at int64, behind []driver.Entry) {
	head, list, _ := bytes.Cut(turn.GetValue(), []byte("\n"))
	if at, _ = strconv.ParseInt(string(head), 10, 64); at <= 0 || at > turn.GetModRevision() {
		at = turn.GetModRevision()
	}
	for line := range bytes.Lines(list) {
		name, number, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		revision, err := strconv.ParseInt(number, 10, 64)
		if err != nil || name == "" || len(behind) == mostNext {
			break
		}
		behind = append(behind, driver.Entry{Queue: queue, ID: prefix(queue) + name, Revision: revision})
	}
	return at, behind
}

// lookAt reads the first keys of a queue. In the order of keys, that shows the oldest only if there are no more: a
// transaction that sorts holds up the writes of the server.
func lookAt(queue string, most int64) *pb.RequestOp {
	keys := prefix(queue)
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
		Key: []byte(keys), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(keys)), KeysOnly: true, Limit: most,
	}}}
}

// join makes an entry that knows turns, if there is none with its key: else the error is errThere. It looks at the
// first keys of the queue, and at whether one sorts behind all entries that know turns. So a plain entry shows, however
// many others there are, and whatever its name; but for an entry that another program has named so that it sorts among
// them, behind which e then looks by itself. That nothing sorts behind is a comparison, for mostly it is so; else the
// queue is read before e waits. Of a queue that was long it asks for two that were there, and looks at it if they are
// not.
func (s *session) join(ctx context.Context, e driver.Entry) (v driver.View, err error) {
	if two, ok := s.long.of(e); ok {
		if v, err = s.joinLong(ctx, e, two); !errors.Is(err, errOtherwise) {
			return v, err
		}
	}
	keys := prefix(e.Queue)
	resp, err := s.append(ctx, &e, []*pb.RequestOp{lookAt(e.Queue, 2)}, none(keys+turnEnd, clientv3.GetPrefixRangeEnd(keys)))
	bare := !errors.Is(err, errOtherwise)
	if !bare { // a key sorts beyond, or e is there
		resp, err = s.append(ctx, &e, []*pb.RequestOp{lookAt(e.Queue, 2)})
	}
	if err != nil {
		return v, err
	}
	v = joined(e, resp.Responses[0].GetResponseRange(), bare)
	s.long.note(v)
	return v, nil
}

// append makes one attempt at a transaction that makes e, if it is not there and all of that holds, and looks first. It
// sets the revision of e. The error is errThere if that e is not there is all that was compared, and false; else it is
// errOtherwise if a comparison is false. If the server has no space, the error is errThere if e is there.
func (s *session) append(ctx context.Context, e *driver.Entry, looks []*pb.RequestOp, holds ...*pb.Compare) (*pb.TxnResponse, error) {
	txn := &pb.TxnRequest{
		Compare: append([]*pb.Compare{createdAt(e.ID, 0)}, holds...),
		Success: append(looks, putOp(e.ID, makeValue(e.Kind, e.Value, e.Since), s.lease)),
	}
	resp, err := settle(errThere, func(look bool) (*pb.TxnResponse, error) {
		if err := s.ended(); err != nil {
			return nil, err
		}
		asked := txn
		if look {
			asked = &pb.TxnRequest{Compare: txn.Compare[:1]}
		}
		resp, err := s.transact(ctx, asked)
		return resp, s.expired(err)
	})
	switch {
	case err == nil: // a transaction that puts has a revision of its own, and so has each key that it has put
		e.Revision, e.Version = resp.Header.Revision, resp.Header.Revision
	case resp != nil && !resp.Succeeded && len(holds) > 0:
		err = errOtherwise
	}
	return resp, err
}

// joined is the View of an entry that has joined, from a look at the queue; bare says that nothing sorts beyond. It
// awaits its turn if more than one is ahead, and all of them know turns: then whoever leaves looks for it. A single one
// is watched, for it may leave without a look. Behind a plain entry, or where keys of other queues hide what there is,
// the queue is read.
func joined(e driver.Entry, page *pb.RangeResponse, bare bool) (v driver.View) {
	v.Self = e
	list := entriesOf(e.Queue, page.Kvs)
	all := !page.More
	knows := !slices.ContainsFunc(list, plain)
	if len(list) < len(page.Kvs) || !all && (!knows || !bare) {
		return v
	}
	v.All, v.Entries, v.Turn = all, list, knows && len(list) > 1
	for i := range list {
		list[i].Ahead = int(page.Count) - len(list) + i
	}
	return v
}

// entriesOf returns the entries of a queue among keys, oldest first.
func entriesOf(queue string, kvs []*mvccpb.KeyValue) (list []driver.Entry) {
	for _, kv := range kvs {
		if e, ok := parseEntry(queue, kv); ok {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, byRevision)
	return list
}

// leave removes an entry that knows turns, in the way that its place allows:
//
//   - It has joined alone: it is deleted if it has no turn. All that stand behind watch their predecessor, or stand
//     behind an entry that does; what has left since has given this one its turn.
//   - The entries behind it are known: it is deleted with its turn, and the next is given its own. If the
//     next is plain, it watches this entry itself, and only the entries behind it watch it.
//   - It has joined a long queue: it is deleted with its turn. The head, whichever it is, is to be given its turn, by
//     Touch, which finds it.
//   - Otherwise, and where one of that is not so any more, it is deleted with its turn, and the queue is looked at in
//     the same step. The head is to be given its turn, too, mostly.
//
// A delete that finds nothing looks all the same: an earlier attempt may have been carried out, and its answer lost.
// Each names the revision of the entry, for a late one must not remove another; but the first, where one attempt was to
// make the entry and it joined alone: until that is answered the key is no other entry's.
func (s *session) leave(ctx context.Context, e driver.Entry) (v driver.View, found bool, err error) {
	place, again, err := s.leaving(ctx, e)
	if place.revision == 0 {
		return v, false, err
	}
	e.Revision = place.revision
	gone := func(and ...*pb.RequestOp) []*pb.RequestOp {
		return append([]*pb.RequestOp{deleteOp(e.ID, false), deleteOp(turnKey(e), true)}, and...)
	}
	out := func() *pb.TxnRequest {
		rest := txnOp(&pb.TxnRequest{Compare: []*pb.Compare{createdAt(e.ID, 0)}, Success: gone()[1:]})
		return &pb.TxnRequest{Success: []*pb.RequestOp{
			txnOp(&pb.TxnRequest{Compare: []*pb.Compare{own(e)}, Success: gone(), Failure: []*pb.RequestOp{rest}}), lookAt(e.Queue, mostNext+1),
		}}
	}
	// The first attempt asks for what is expected: that is a smaller request, which does nothing where it is not so any
	// more.
	txn := &pb.TxnRequest{Compare: []*pb.Compare{own(e)}}
	looks, passes := false, false
	switch {
	case place.alone:
		if place.once {
			txn.Compare = nil
		}
		txn.Compare, txn.Success = append(txn.Compare, untouched(e)), []*pb.RequestOp{deleteOp(e.ID, false)}
	case len(place.next) > 0:
		txn.Compare, txn.Success = append(txn.Compare, own(place.next[0])), gone()
		if passes = !plain(place.next[0]); passes {
			txn.Success = append(txn.Success, putTurn(place.next[0], 0, place.next[1:]))
		}
	case place.deleting: // an earlier attempt may have been carried out
		txn, looks = out(), true
	case place.far:
		txn.Success = gone()
	default:
		txn.Success, looks = gone(lookAt(e.Queue, mostNext+1)), true
	}
	resp, err := s.transact(ctx, txn)
	unsure := errors.Is(err, rpctypes.ErrNoSpace) // it may have been carried out
	// A turn that may not be put must not keep the entry.
	refused := passes && err != nil && (errors.Is(err, rpctypes.ErrLeaseNotFound) || s.Outcome(err) == driver.Refused)
	if refused {
		place.head, again = 0, false
	}
	if refused || err == nil && (!resp.Succeeded || place.alone && resp.Responses[0].GetResponseDeleteRange().GetDeleted() == 0) {
		resp, err = s.transact(ctx, out())
		looks = true
	}
	if err != nil {
		return v, false, s.over(err)
	}
	found = true
	switch answers := resp.Responses; {
	case looks:
		deleted, page := answers[len(answers)-2], answers[len(answers)-1].GetResponseRange()
		if txn := deleted.GetResponseTxn(); txn != nil {
			if found = txn.Succeeded || unsure; txn.Succeeded {
				deleted = txn.Responses[1]
			}
		}
		last := int64(math.MaxInt64) // at which it was last seen to be the head by another
		if is := deleted.GetResponseDeleteRange(); is != nil {
			last, _ = parseTurn(e.Queue, first(is.PrevKvs))
		}
		if v = remains(e.Queue, page, place.head, last); v.Turn {
			v.Self.Revision = resp.Header.Revision
		}
	case place.far && len(place.next) == 0:
		v = driver.View{Self: driver.Entry{Queue: e.Queue}, Turn: true}
		if place.head == 0 { // else it was the head itself, and no other has a turn
			v.Self.ID, v.Self.Revision = e.ID, e.Revision
		}
	}
	if v.Turn {
		s.spare.owes(e.Queue)
	}
	s.spare.left(e, found && again)
	return v, found, nil
}

// leaving returns what is known of an entry that is about to be deleted, and whether its key may then be used again.
// The revision of an entry that was never confirmed is read. If it is 0, there is no such entry, or the error says why
// that is not known.
func (s *session) leaving(ctx context.Context, e driver.Entry) (place usage, again bool, err error) {
	if err := s.ended(); err != nil {
		return place, false, err
	}
	place, again = s.spare.leaving(e)
	s.forget(e)
	if place.revision != 0 {
		return place, again, nil
	}
	resp, err := s.get(ctx, e.ID)
	if err != nil {
		return place, false, err
	}
	if place.revision = first(resp.Kvs).GetCreateRevision(); place.revision == 0 {
		s.spare.left(e, false)
	} else {
		s.spare.found(e, place.revision)
	}
	return place, again, nil
}

// remains is the View of a queue whose head is to be given its turn, and an empty one if that is not needed: it is
// plain, or it watches the entry that has left.
//
// It does if it joined after that one was known to be the head, and after others have last seen it there and given it a
// turn. Then it has found that one alone, and watches it; or another between them, which is gone. Whoever removed that
// saw the queue when it was gone, and gave the head a turn, or does so now, and finds this one. Or it died, for which
// those behind it look by themselves; or it was plain, and was watched.
func remains(queue string, page *pb.RangeResponse, head, turn int64) (v driver.View) {
	list := entriesOf(queue, page.Kvs)
	switch {
	case page.More:
		list = nil
	case len(list) == 0, plain(list[0]), head != 0 && list[0].Revision > max(head, turn):
		return v
	}
	return driver.View{Self: driver.Entry{Queue: queue}, Entries: list, Turn: true}
}
