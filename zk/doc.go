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
//	Mutex, ReentrantMutex   _c_<uuid>-lock-<sequence>       InterProcessMutex
//	RWMutex                 _c_<uuid>-__WRIT__<sequence>    InterProcessReadWriteLock
//	                        _c_<uuid>-__READ__<sequence>
//	Election                _c_<uuid>-latch-<sequence>      LeaderLatch
//	Semaphore               _c_<uuid>-permit-<n>-<sequence> not shared: see below
//
// A Semaphore refuses a path that Curator's InterProcessSemaphoreV2 uses, for that counts those who wait as holders. Its
// size is in the data of the queue's node, as "<declared> <current>". The data of all other nodes says who holds or
// waits; a candidate's is its own.
//
// The order is Curator's: by the text behind the last lock- (__WRIT__, __READ__, latch-), and by the whole name of what
// has none of it. So zk.Lock of the client library stands in one queue with Mutex; and so does kazoo's Lock with
// _NODE_NAME = "-lock-" and _EXCLUDE_NAMES = ["lock-"], but not as it comes. A node that sorts ahead and is not
// ephemeral would block everybody for ever: Lock then fails with an error that names it.
//
// Missing nodes above are made as containers, and made again when the server has collected them. The sequence of a
// queue that was never empty for a while ends after 2^31 entries; after that, Lock fails and says so.
//
// # How long a lock stays with a client that died
//
// For the TTL, counted from the last sign of life that the leader knows of. A lease ends here before that: it is
// renewed by a Sync to the leader every quarter of the TTL, and counts from when the last Sync but one was sent. The
// heartbeats of the protocol do not count, because a server that is cut off from its leader goes on answering them.
//
// # What it needs
//
// ZooKeeper 3.5 or later, with extendedTypesEnabled or a version where containers are on without it. A TTL of at least
// two of the server's ticks.
package zk
