package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/farsync/farsync/driver"
)

const (
	// pageSize is how many keys Create is shown: enough for the whole of most queues, so that no further read is needed
	// to know what is ahead, and few enough that a long queue does not hold up the server's writes.
	pageSize = 127
	// surveyPage is how many keys one read of Survey returns.
	surveyPage = 512
)

// Create puts the entry's key in one transaction, which also shows the beginning of the queue in key order. If that is
// all there is, no further read is needed to know what is ahead.
//
// The comparison makes it safe to send again: whichever attempt arrives first makes the key, and the others find it. An
// attempt without it would put a writer's key a second time, and make it a reader's.
//
// The queue is read before the key is put, so that it is not among what is shown.
func (s *session) Create(ctx context.Context, e driver.Entry, attempt int) (v driver.View, err error) {
	if err := take(ctx, s.joins); err != nil {
		return v, err
	}
	defer func() { <-s.joins }()
	// It may be there from now on: where the session is closed before that is known, what stands behind it is told all the
	// same.
	noted := !plain(e) && s.spare.making(e)
	if plain(e) {
		v, err = s.joinPlain(ctx, e)
	} else if v, err = s.join(ctx, e); v.Turn {
		s.crowd(e)
	}
	if noted && err != nil && !errors.Is(err, errThere) {
		if is := s.Outcome(err); is == driver.NotDone || is == driver.Refused {
			s.spare.left(e, false)
		}
	}
	once := attempt == 0 && !s.wrapped && s.counts.Load()
	switch {
	case errors.Is(err, errThere):
		v.Self, err = s.Find(ctx, e)
		switch is := s.Outcome(err); {
		case err == nil && v.Self.Kind != e.Kind:
			return driver.View{}, s.discard(ctx, v.Self)
		case err == nil:
			s.spare.made(v.Self, false)
		case !errors.Is(err, driver.ErrGone) && (is == driver.NotDone || is == driver.Refused):
			err = fmt.Errorf("the entry is there, and was not read: %v", err) //nolint:errorlint // nor is its outcome that of the read
		}
	case v.Self.Revision != 0:
		s.spare.made(v.Self, once)
		switch {
		case !plain(e) && v.All && len(v.Entries) == 0:
			s.spare.alone(v.Self)
		case !plain(e) && isLong(v):
			s.spare.far(v.Self)
		}
	}
	return v, err
}

// discard deletes an entry of another kind that was found under the key of an entry that is to be made. The entry had
// the key before, and was released, but the service has gone back to before that. A writer's that was downgraded would
// be a reader's still: the new writer would hold beside other readers. Nothing relies on it, and the delete names its
// revision. The error says that the new one is not made yet.
func (s *session) discard(ctx context.Context, was driver.Entry) error {
	_, err := s.commit(ctx, []clientv3.Cmp{created(was)}, driver.ErrGone, clientv3.OpDelete(was.ID))
	if err == nil || errors.Is(err, driver.ErrGone) {
		return errStood
	}
	return err
}

// joinPlain makes a plain entry, if there is none with its key: else the error is errThere.
func (s *session) joinPlain(ctx context.Context, e driver.Entry) (v driver.View, err error) {
	then := []clientv3.Op{
		clientv3.OpGet(prefix(e.Queue), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize)),
		clientv3.OpPut(e.ID, makeValue(e.Kind, e.Value, e.Since), clientv3.WithLease(s.lease)),
	}
	if e.Kind == driver.Permit {
		then = append(then, clientv3.OpGet(sizeKey(e.Queue)))
	}
	none := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.ID), "=", 0)}
	resp, err := s.commit(ctx, none, errThere, then...)
	if err != nil {
		return v, err
	}
	// A transaction that puts has a revision of its own, and all keys that it has put have that revision.
	v.Self = e
	v.Self.Revision, v.Self.Version = resp.Header.Revision, resp.Header.Revision
	if e.Kind == driver.Permit {
		v.Register = register(resp.Responses[2].GetResponseRange().Kvs)
	}
	if page := resp.Responses[0].GetResponseRange(); !page.More {
		v.All = true
		v.Entries, err = ahead(v.Self, page.Kvs)
	}
	return v, err
}

// ahead returns the entries among the keys that were made before e, oldest first; all of them if e is only about to
// join.
//
// Such a read shows the leases of the keys, and comes before anything waits behind them. It refuses a queue with a key
// that nothing will ever remove: it would block the queue for ever.
func ahead(e driver.Entry, kvs []*mvccpb.KeyValue) (list []driver.Entry, err error) {
	for _, kv := range kvs {
		other, ok := parseEntry(e.Queue, kv)
		switch {
		case !ok, e.ID != "" && kv.CreateRevision >= e.Revision:
			continue
		case e.ID == "" && other.Session == "":
			err = stray(other)
		}
		list = append(list, other)
	}
	slices.SortFunc(list, byRevision)
	for i := range list {
		list[i].Ahead = i // of the nearest alone it is not known, and 0 says so
	}
	return list, err
}

// byRevision orders the entries of a queue. No two keys share a create revision unless one transaction of another
// program made both.
func byRevision(a, b driver.Entry) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID))
}

// Ahead reads what is ahead of e and e itself in one request. The server sorts for it, and must not hold up its writes
// meanwhile, so the request is no transaction unless a register is read with it; a request that only reads is not
// written to the server's log.
//
// For an entry that is about to join the keys are read with their leases and their values, which a read of keys alone
// does not show, and the oldest comes first: it is the holder's.
func (s *session) Ahead(ctx context.Context, e driver.Entry, waiting bool) (driver.View, error) {
	nearest := waiting && e.Kind != driver.Read && e.Kind != driver.Permit
	order, limit := clientv3.SortAscend, int64(1)
	if e.ID != "" {
		order, limit = clientv3.SortDescend, 2
	}
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, order)}
	if e.ID != "" {
		// In descending order the own key comes first, and the nearest second.
		options = append(options, clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(e.Revision))
	}
	if nearest {
		options = append(options, clientv3.WithLimit(limit))
	}
	v := driver.View{Self: e}
	resp, err := s.read(ctx, &v, options)
	if err != nil {
		return driver.View{}, err
	}
	v.Entries, err = ahead(e, resp.Kvs)
	v.All = !resp.More
	if nearest && !v.All && len(v.Entries) == 0 {
		// The nearest key is not an entry of this queue. The nearest that is may be anywhere.
		return s.Ahead(ctx, e, false)
	}
	if e.ID == "" {
		return v, err
	}
	own := first(resp.Kvs) // unless it is gone
	if string(own.GetKey()) != e.ID || own.CreateRevision != e.Revision {
		return driver.View{}, driver.ErrGone
	}
	if v.All && len(v.Entries) == 0 {
		s.spare.proved(&v, resp.Header.GetRevision())
	}
	now, _ := parseEntry(e.Queue, own)
	v.Self.Kind, v.Self.Version = now.Kind, now.Version
	return v, nil
}

// read reads keys of the queue of v.Self, and for a Permit the register, at one revision.
func (s *session) read(ctx context.Context, v *driver.View, options []clientv3.OpOption) (*pb.RangeResponse, error) {
	if v.Self.Kind != driver.Permit {
		return s.get(ctx, prefix(v.Self.Queue), options...)
	}
	resp, err := s.commit(ctx, nil, nil,
		clientv3.OpGet(prefix(v.Self.Queue), options...), clientv3.OpGet(sizeKey(v.Self.Queue)))
	if err != nil {
		return nil, err
	}
	v.Register = register(resp.Responses[1].GetResponseRange().Kvs)
	return resp.Responses[0].GetResponseRange(), nil
}

// List reads the queue with its values. A key that nothing will ever remove is shown as an entry of no session, beside the
// error that names it.
func (s *session) List(ctx context.Context, queue string, limit int) (driver.View, error) {
	resp, err := s.get(ctx, prefix(queue), clientv3.WithPrefix(), clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return driver.View{}, err
	}
	list, err := ahead(driver.Entry{Queue: queue}, resp.Kvs)
	if resp.More && len(list) < limit {
		return s.List(ctx, queue, 0) // some of the keys belong to other queues
	}
	return driver.View{Entries: list, All: !resp.More}, err
}

// Find reads the key of e. An entry that was never confirmed has no revision, and its key alone tells it from others.
func (s *session) Find(ctx context.Context, e driver.Entry) (driver.Entry, error) {
	resp, err := s.get(ctx, e.ID)
	kv := first(resp.GetKvs())
	if err == nil && (kv == nil || e.Revision != 0 && kv.CreateRevision != e.Revision) {
		err = driver.ErrGone
	}
	if err != nil {
		return driver.Entry{}, err
	}
	now, _ := parseEntry(e.Queue, kv)
	return now, nil
}

// Replace puts the entry's key once more: its create revision, and with it its place, stays. A writer's key that was
// put again is a reader's from then on, so its value cannot be changed without that.
func (s *session) Replace(ctx context.Context, e driver.Entry, k driver.Kind, value []byte) (driver.Entry, error) {
	if e.Kind == driver.Write && k != driver.Read {
		_, err := s.Find(ctx, e)
		return driver.Entry{}, cmp.Or(err, errors.ErrUnsupported)
	}
	put := clientv3.OpPut(e.ID, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
	if value != nil {
		put = clientv3.OpPut(e.ID, makeValue(k, value, e.Since), clientv3.WithIgnoreLease())
		e.Value = value
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(e.ID), "=", e.Version)
	resp, err := s.commit(ctx, []clientv3.Cmp{unchanged}, driver.ErrConflict, put)
	if errors.Is(err, driver.ErrConflict) {
		_, lost := s.Find(ctx, e)
		err = cmp.Or(lost, err)
	}
	if err != nil {
		return driver.Entry{}, err
	}
	e.Kind, e.Version = k, resp.Header.Revision
	return e, nil
}

// Delete deletes the entry's key. The first attempt needs no comparison, for until it is answered the key is no other
// entry's. Nor does one for an entry that no answer has confirmed, whose key is not used again.
func (s *session) Delete(ctx context.Context, e driver.Entry) (v driver.View, found bool, err error) {
	if err := take(ctx, s.leaves); err != nil {
		return v, false, err
	}
	defer func() { <-s.leaves }()
	if !plain(e) {
		return s.leave(ctx, e)
	}
	first, again := s.spare.deleting(e)
	if !first && e.Revision != 0 {
		_, err = s.commit(ctx, []clientv3.Cmp{created(e)}, driver.ErrGone, clientv3.OpDelete(e.ID))
		if errors.Is(err, driver.ErrGone) {
			return v, false, nil
		}
		return v, err == nil, err
	}
	resp, err := s.do(ctx, clientv3.OpDelete(e.ID))
	found = err == nil && resp.Del().Deleted > 0
	if found && again {
		s.spare.deleted(e)
	}
	return v, found, err
}

// Register reads the key of the queue's size.
func (s *session) Register(ctx context.Context, queue string) (driver.Register, error) {
	resp, err := s.get(ctx, sizeKey(queue))
	return register(resp.GetKvs()), err
}

// register returns the register that a read of that key has found.
func register(kvs []*mvccpb.KeyValue) driver.Register {
	return driver.Register{Value: string(first(kvs).GetValue()), Version: first(kvs).GetModRevision()}
}

// SetRegister puts that key, without a lease: a size outlives its users. The mod revision of a key that is not there is
// 0, as is the version of a register that is not.
func (s *session) SetRegister(ctx context.Context, queue, value string, version int64, head driver.Entry) (int64, error) {
	as := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(sizeKey(queue)), "=", version)}
	if head.ID != "" {
		as = append(as, created(head))
	}
	resp, err := s.commit(ctx, as, driver.ErrConflict, clientv3.OpPut(sizeKey(queue), value))
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}

// Tell puts the key where the holder of e is asked for it, in the session of the client that asks. It stays when e is
// gone, until it is taken back: the release of a lock deletes one key, whether it was asked for or not.
func (s *session) Tell(ctx context.Context, e driver.Entry, words string) (lasts bool, err error) {
	if words == "" {
		return true, s.unsay(ctx, e)
	}
	_, err = s.commit(ctx, []clientv3.Cmp{created(e)}, driver.ErrGone,
		clientv3.OpPut(askKey(e), words, clientv3.WithLease(s.lease)))
	return true, err
}

// unsay deletes that key, whichever client has put it last, unless it was put for an entry that was made since with the
// key of e. It needs no other right than Tell.
func (s *session) unsay(ctx context.Context, e driver.Entry) error {
	// The create revision of a key that is not there is 0.
	notLater := clientv3.Compare(clientv3.CreateRevision(e.ID), "<", e.Revision+1)
	_, err := s.commit(ctx, []clientv3.Cmp{notLater}, driver.ErrConflict, clientv3.OpDelete(askKey(e)))
	if !errors.Is(err, driver.ErrConflict) {
		return err
	}
	resp, err := s.get(ctx, e.ID, clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	// Whatever was put before then was put for an entry that is gone. If it is put meanwhile, the client that has put it
	// is the next to take it back.
	then := resp.Header.Revision
	if now := first(resp.Kvs); now != nil {
		then = now.CreateRevision
	}
	before := clientv3.Compare(clientv3.ModRevision(askKey(e)), "<", then+1)
	if _, err = s.commit(ctx, []clientv3.Cmp{before}, driver.ErrConflict, clientv3.OpDelete(askKey(e))); errors.Is(err, driver.ErrConflict) {
		return nil
	}
	return err
}

// Heard reads that key, and whether e is still there to be asked for. Words that are older than e were for an entry
// that had its key before.
func (s *session) Heard(ctx context.Context, e driver.Entry) (string, error) {
	resp, err := s.commit(ctx, []clientv3.Cmp{created(e)}, driver.ErrGone, clientv3.OpGet(askKey(e)))
	if err != nil {
		return "", err
	}
	words := first(resp.Responses[0].GetResponseRange().Kvs)
	if words.GetModRevision() < e.Revision {
		return "", nil
	}
	return string(words.GetValue()), nil
}

// Survey reads all keys below the prefix, page by page at one revision, for the order of keys is not the order of
// paths: the keys of /a/b stand among the keys of /a. So the first queues are known once all were read, and then all
// are shown, whatever the limit. It is no queue where none of the keys is from a lock and has a lease: keys without one
// are data of other programs, and registers. Beside such a key they block the queue, and are shown without their values.
func (s *session) Survey(ctx context.Context, prefix, after string, _ int) (driver.View, error) {
	from, end := max(prefix, after, "/"), clientv3.GetPrefixRangeEnd(max(prefix, "/"))
	page, revision := &pb.RangeResponse{More: true}, int64(0)
	var list, strays []driver.Entry
	queues := map[string]bool{}
	for page.More {
		var err error
		page, err = s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(surveyPage), clientv3.WithRev(revision))
		if err != nil {
			return driver.View{}, err
		}
		if revision == 0 {
			revision = page.Header.Revision // the headers of other pages say when they were answered, not what they show
		}
		for _, kv := range page.Kvs {
			queue := queueOf(string(kv.Key))
			if queue > after && strings.HasPrefix(queue, prefix) && !beside(queue) {
				e, _ := parseEntry(queue, kv)
				if kv.Lease == 0 {
					e.Value = nil // it would keep the whole answer in memory, and most of etcd has nothing to do with locks
					strays = append(strays, e)
				} else {
					list = append(list, e)
					queues[queue] = queues[queue] || fromLocks(kv)
				}
			}
			from = string(kv.Key) + "\x00"
		}
		// All keys of a queue come before <queue>0, for 0 follows the slash. No key behind it makes a queue of that path.
		strays = slices.DeleteFunc(strays, func(e driver.Entry) bool { return !queues[e.Queue] && e.Queue+"0" <= from })
	}
	list = append(list, strays...)
	list = slices.DeleteFunc(list, func(e driver.Entry) bool { return !queues[e.Queue] })
	slices.SortFunc(list, func(a, b driver.Entry) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), byRevision(a, b))
	})
	return driver.View{Entries: list}, nil
}
