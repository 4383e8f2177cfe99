// Package zk keeps farsync's queues in ZooKeeper, in the nodes that Apache Curator's recipes make, so that programs in
// Go and in Java wait for one another.
//
//	store, err := zk.Open(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
// # What it writes
//
// All entries are ephemeral sequential nodes below the path of the queue, with Curator's names:
//
//	Mutex, ReentrantMutex   _c_<id>-lock-<sequence>       InterProcessMutex
//	RWMutex                 _c_<id>-__WRIT__<sequence>    InterProcessReadWriteLock
//	                        _c_<id>-__READ__<sequence>
//	Election                _c_<id>-latch-<sequence>      LeaderLatch
//	Semaphore               _c_<id>-permit-<n>-<sequence> not shared
//
// Curator draws a UUID as the id of each node, and looks for none but its own. Here it is 12 letters and digits of the
// session, and a number that counts the session's entries, in whatever queue.
//
// A Semaphore's size is in the data of the queue's node, as "<declared> <current>". The first line of the data of an
// entry is the Holder option of its Store. After it comes a line "under=<node>" for each lease of the same Store that
// the caller held meanwhile, "note=<text>" if it has published one, "turn=<number>" once a turn that is not the first
// was held for long, and "waits=<text>" once the holder has said what it waits for. The data of a candidate is its own
// value.
//
// The order is Curator's: by the text behind the last lock- (__WRIT__, __READ__, latch-), and by the whole name of a
// node that has none of these. So zk.Lock of the client library stands in one queue with Mutex; and so does kazoo's
// Lock with _NODE_NAME = "-lock-" and _EXCLUDE_NAMES = ["lock-"], but not as it comes. A node that sorts ahead and is
// not ephemeral would block the queue for ever: Lock and TryLock then fail with an error that names it. Where it was
// made ahead of a node that holds, that lease goes on: no client holds by a node that does not go with its session,
// Curator's clients wait for it as farsync's do, and none is let in beside the holder.
//
// Entries of different recipes on one path stand in one order too, by their sequences, and the oldest says what the
// path is for: all others are refused with driver.ErrKind. Curator's recipes do not see one another there. A path on
// which Curator's InterProcessSemaphoreV2 or InterProcessSemaphoreMutex has a lease is refused as well, for these count
// in another way. They do not look for farsync: where farsync was first, nothing holds them back.
//
// Missing nodes above are made as containers, from the bottom up, and made again when the server has collected them.
//
// ZooKeeper's counter of a queue that was never empty for a while ends after 2^31 entries. All that join later would
// have one number, and their order could not be told. So Lock fails then and says so, for every primitive, until the
// queue has drained: the server removes the empty container, and counting begins at 0. Other clients have no such end:
// two of Curator's may hold a lock at once there.
//
// To ask for a lock is to write Curator's word into the entry's node, in place of its value.
//
// # How long a lock stays with a client that died
//
// For the TTL, counted from the last sign of life that the leader knows of. A lease ends here before that. Its session
// is renewed every quarter of the TTL by a request that the leader answers. The lease counts from when such a request
// was sent that had been answered a quarter of the TTL before the last was sent, which is mostly the last but one.
//
// Not every such request proves the same. While an entry holds, it is a transaction that checks the entry's node and
// changes nothing: a quorum has answered it. So has one answered each create. While nothing is held, it is a Sync,
// which the leader answers alone; a leader that is cut off does so until it finds out. An entry that has waited behind
// Syncs is granted after such a transaction. The heartbeats of the protocol would prove nothing, because a server that
// is cut off from its leader answers them as well. The client's are not sent: a session that is not renewed runs out.
//
// # Passwords and certificates that change
//
// The option BeforeConnect changes the certificates of each connection. A server that is not trusted, or does not trust
// this client, is tried again for as long as the session lives. A password is another matter: a client with another
// password is another user, so a session keeps its own to its end, and the next begins with the new. Queues that the
// first user has made must be opened to the new one in their ACLs by then, or be gone.
//
// # What it needs
//
// ZooKeeper 3.5 or later, with extendedTypesEnabled or a version where containers are on without it. A TTL of at least
// two of the server's ticks.
//
// # How it is made
//
// The package is a driver: see package driver. It speaks ZooKeeper's protocol itself, for a lease depends on what
// client libraries keep to themselves: when a request was sent, which timeout was granted, the zxid of a reply, and
// over which connection an event came. A session has one connection after the other, and is never replaced by another,
// so that what is asked for in a session is done in it or not at all.
package zk
