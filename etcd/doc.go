// Package etcd keeps farsync's queues in etcd, over a client that the program has already.
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
// An entry of the queue /locks/billing is one key, /locks/billing/<kind>-<id>, attached to the Store's one etcd lease.
// The order of entries is the order of the create revisions. The kind is m for a mutex, w and r for a writer and a
// reader, c for a candidate in an election, and s<units> for units of a semaphore. A writer's key that was put a second
// time is a reader's. A key that was deleted may be made again, by the same Store for another lock on the path: a lock
// is told by the create revision of its key.
//
// A mutex whose release names the next holder is m-t<lease>.<n>, with its etcd lease in hexadecimal. The key
// <path>!turn/t<lease>.<n> says that it is its turn: the revision at which it was seen to be the head, and a line for
// each entry that is known to stand behind it. It is under the lease of that entry, and is deleted with it. Where the
// server has authentication on, or the client a KV or Watcher of its own, there are no turns, and the key of a mutex is
// like all other keys. A permit of an earlier version may be s<units>-<time>t<lease>, with 16 digits, and may have a
// key <path>!turn/t<lease>.<time> without a value: Stores of those versions tell one another by it which permit fits.
//
// The first line of a key's value is the holder, the last the time since when. Between them stands a line "under=<key>"
// for each lease of the same Store that the caller held meanwhile, "note=<text>" if it has published one, and
// "turn=<number>" once a turn that is not the first was held for long. The value of a candidate is its own, as etcdctl
// elect and concurrency.Election have it.
//
// The size of a semaphore is the key <path>!size/units: "<declared> <current>". It has no lease and is never removed,
// for a size that Resize has set lasts while the semaphore is not in use. Delete it when the semaphore is not needed
// any more. A request to give a lock back is the key <path>!ask/<kind>-<id>, which the Store that has asked deletes
// once the entry is gone. Neither is in a queue.
//
// # What it shares a queue with
//
// etcdctl lock, concurrency.Mutex of etcd's client, and the server's lock service queue in the same way under the same
// prefix, so all of them exclude one another on one path. A key that does not look like farsync's counts as exclusive.
// A key with a further slash after the path belongs to another queue and is ignored. The programs named do not ignore
// it, so do not nest the path of a lock that is shared with them.
//
// A key without a lease under the path would block the queue for ever. Lock then fails with an error that names the
// key.
//
// # What it needs
//
// With authentication on, the client's user needs READWRITE on the prefix of the paths, which must end in a slash:
// /locks/ for the lock /locks/billing. With rights on /locks/billing/ alone it can lock; Ask and a Semaphore are
// refused.
//
// The client logs its retries to standard error unless its Config has a Logger. zap.NewNop drops them, and
// docs/start/etcd.md has a function that passes them on to a slog.Logger.
//
// An interceptor of the client is called by the requests of the Store as by any other. An interceptor that does not return
// when its ctx ends holds up the call, or the renewal, that it is called for, and Close; a panic in it ends the process.
//
// A client of all members of a cluster loses nothing when one member fails, also if the member falls silent: each
// request that is not answered in time is sent to another member, and so are renewals and watches. With a TTL much
// longer than the default a waiter notices a silent member later. A DialKeepAliveTime and a DialKeepAliveTimeout help
// there.
//
// Give the client the members themselves, and not etcd's own grpc-proxy. The proxy renews leases at its own pace, and
// answers a renewal with the next answer that it gets from etcd, to a request that may be older than the renewal. The
// session then counts from a later moment than etcd does, by as long as the proxy has waited for etcd. Two clients may
// hold a lock for that time, and only tokens and guards keep their writes apart.
//
// The client may have its KV, Watcher and Lease wrapped by package namespace. Such a client may repeat a request by
// itself behind a proxy that cancels requests, and farsync cannot prevent that: do not combine the two.
//
// # Passwords and certificates that change
//
// When a user's password is changed, etcd takes the user's tokens away at once. The client then asks for another with
// the password that it was made with. To have it use the new password, replace its Auth after clientv3.New, by an Auth
// whose Authenticate passes on the password of the moment. For certificates that change, give the client's DialOptions
// grpc.WithTransportCredentials with a ClientHandshake that makes its tls.Config anew. A user who is refused for the
// password is tried again for as long as the session lives, and refused an Open at once. So it does not matter whether
// etcd or the program hears of a new password first, if they do within the TTL.
//
// # How long a lock stays with a client that died
//
// For the TTL, counted from its last renewal; longer if the cluster changes its leader meanwhile, for a new leader
// renews all leases once. Servers before 3.4.31 and 3.5.13 can let an old leader revoke live leases; Open warns of
// them, and so does a Store that finds such a server later. Later versions can still do so, now and then, when a leader
// goes on that was suspended for about a TTL: then two may hold. For how long, then and after a snapshot was restored,
// is a table of docs/WHICH-STORE.md. Only tokens and guards keep their writes apart meanwhile.
package etcd
