// Package etcd keeps farsync's queues in etcd, with a client that the program has already.
//
//	store, err := etcd.Open(ctx, client, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
// # What it writes
//
// An entry of the queue /locks/billing is one key, /locks/billing/m-<id>, attached to the Store's one etcd lease; the
// order is that of the create revisions. etcdctl lock, concurrency.Mutex of etcd's client, and the server's lock
// service queue in the same way under the same prefix, so all of them exclude one another on one path. Keys that
// do not look like farsync's count as exclusive. Keys with a further slash after the path belong to other queues and
// are ignored; the others named do not ignore them, so do not nest the path of a lock that is shared with them.
//
// A key without a lease under the path would block the queue for ever. Lock then fails with an error that names the key.
//
// The value of a key is the holder and, on a line of its own, the time since when; that of a candidate in an election,
// begun with c-, is its own, as etcdctl elect and concurrency.Election have it. Readers' keys begin with r-, writers' with
// w-: a writer's key that was put a second time is a reader's. A semaphore's keys begin with s<units>-, and its size is in
// the key that is the path itself: "<declared> <current>". A request to give a key back is the key <path>!ask/<name>.
//
// # What it needs
//
// With authentication on, the client's user needs READWRITE on the prefix of the paths, which must end in a slash.
//
// The client logs its retries to standard error unless it has a Logger of its own.
//
// A client of all members of a cluster loses nothing when one of them fails, also if that one falls silent: each request
// that is not answered in time is sent to another member, and so are renewals and watches. With a TTL much longer than the
// default a silent member is noticed later by those that wait. A DialKeepAliveTime and a DialKeepAliveTimeout help there.
//
// The client may have its KV, Watcher and Lease wrapped by package namespace. Then farsync cannot see how often the client
// has sent a request by itself, which it does behind a proxy that cancels requests: do not combine the two.
//
// # How long a lock stays with a client that died
//
// For the TTL, counted from its last renewal; longer if the cluster changes its leader meanwhile, for a new leader
// renews all leases once. Servers before 3.4.31 and 3.5.13 can let an old leader revoke live leases; Open warns of
// them.
package etcd
