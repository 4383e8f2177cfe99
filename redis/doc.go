// Package redis keeps farsync's queues in Redis, version 7 or newer, with the library go-redis.
//
//	store, err := redis.Open(ctx, &goredis.UniversalOptions{Addrs: []string{"localhost:6379"}}, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
// # What it writes
//
// A queue is a sorted set of entries in the order of their revisions, an entry is a hash, and the sessions are a sorted
// set by their deadlines. All keys begin with farsync:{<namespace>}:, and docs/wire-redis.md has them all. Each request
// calls one script, which Redis carries out as a whole. Revisions are the server's clock in microseconds, or one more
// than the last where that is higher. No key has a TTL of Redis's own: sessions end when a script finds their deadline
// passed, by the clock of the server.
//
// Which permits of a semaphore are granted is decided by the scripts, so a join and a release cost the same in a
// semaphore of 10 units and in one of 1,000. They count exactly up to 9,007,199,254,740,991: a larger semaphore is
// refused. The size of a semaphore, a small hash, stays when its queue is empty, and is never removed: do not make
// paths of semaphores up for each job.
//
// A waiter is woken by a message to the one channel of its Store. The script that removes the entry it waits for
// publishes that message. A message may be lost. A Store may lose the right to subscribe, and logs a line then. So a
// waiter looks by itself after 30 to 45 seconds, and every few seconds where the server refuses the subscription.
//
// # What holds, and what does not
//
// Redis answers before it has replicated or saved what it was told, so a restart or a failover may undo it. farsync
// does not prevent that. It notices, and grants nothing until every earlier holder has stopped. A server that was
// restarted, has become the master, has lost its data, or is another one at the same address does not know the scripts
// that it is sent. A server that was a replica in between sees that it has taken the data of another. The Store that
// finds this out ends all sessions, and nothing is granted for the longest TTL that was seen in the namespace. So the
// first lock of a new namespace takes one TTL, unless the option Fresh is set. Meanwhile a holder that has not heard of
// it holds on until its deadline, and others see its queue without it. No call says then that a lock is taken, or free:
// a Try and Election.Leader fail with farsync.ErrUnavailable and say for how long, a Lock waits, and the Store is
// farsync.StateRecovering.
//
//	one server, clocks set in small steps       two holders never overlap
//	killed and restarted, with its data         the same, after a silence of one TTL
//	killed and restarted, the last second lost  the same, if all Stores of the namespace have one TTL
//	killed and restarted, without its data      the same, if all Stores of the namespace have one TTL
//	all keys removed (FLUSHALL)                 the same, if no new Store with the option Fresh is the first to come
//	failover to a replica that is behind,       the same, if the old master is dead, and all Stores of the
//	  by Sentinel, in a cluster or by hand      namespace have one TTL
//	failover, and back to the same server,      the same, if all Stores of the namespace have one TTL
//	  which has taken the data of the other
//	the address leads to another server         the same, if all Stores of the namespace have one TTL
//	failover, and the old master goes on        two holders, unless Replicas leaves the old master no majority
//	failover back to an earlier master that     two holders, unless the Store that gets there first has
//	  was not restarted, and has not received   made a request at the master in between
//	  what the master in between was told
//	single keys removed by hand                 two holders never overlap, but for a reader who alone is taken out of its
//	                                            queue (docs/wire-redis.md has each key)
//	single keys changed by hand                 not covered
//	the server's clock steps forward            two holders: by more than two thirds of the TTL, or at all while a holder is
//	                                            cut off
//	the server's clock steps back               locks of dead processes stay for as much longer, and a silence
//	                                            under way begins anew
//
// For how long two may hold after a failover is a table of docs/WHICH-STORE.md.
//
// Tokens increase with the revisions: for as long as the data lives in any case, and after it is lost for as long as
// the clocks of the servers agree. A step of the clock between two renewals is logged. Whatever is written in the
// table, a resource that checks tokens, or a script under a [Guard], is safe from an old holder.
//
// A cluster keeps a namespace on one server, for all its keys are in one slot. To spread many locks over a cluster,
// spread them over Stores of several namespaces. While the slot moves to another server nothing is granted, and then
// for one TTL more.
//
// Not tried are Valkey, KeyDB and Dragonfly. A proxy that spreads the requests of one connection over several servers
// must not stand in between.
//
// # What it needs
//
// A maxmemory-policy of noeviction, or a volatile one: Open refuses a server that may remove any key when its memory is
// full. Where the policy is set while a Store runs, a line at Warn says so within a TTL. With full memory nothing new
// is locked, and held locks stay held. The user needs the commands EVALSHA, EVAL, SCRIPT LOAD, INFO, SSUBSCRIBE,
// SPUBLISH and PING, WAIT with the option Replicas, all commands that the scripts use, and the keys and channels
// farsync:{<namespace>}:*.
//
// A Store has connections of its own. Of the settings that Open is given, it changes those by which go-redis repeats
// requests, reads from replicas, or ignores a ctx, and bounds its timeouts by 3 seconds. go-redis logs failed dials to
// standard error; its SetLogger changes that.
//
// A Dialer, an OnConnect, a provider of credentials or a function of the TLSConfig that blocks or panics is as a server
// that makes no connection. It holds up no renewal over a connection that stands, no Close, and no other Store. A
// StreamingCredentialsProvider is asked anew for each connection. A PushNotificationProcessor is not called.
//
// # Passwords and certificates that change
//
// Give Open a CredentialsProviderContext in place of Username and Password, and a Dialer that makes its tls.Config anew
// in place of TLSConfig: go-redis calls both for each connection. A server that does not let the Store in, or is not
// trusted, is asked again for as long as the session lives, and refuses an Open at once. So it does not matter whether
// the server or the program hears of a new password first, if they do within the TTL.
//
// # How long a lock stays with a client that died
//
// For the TTL, counted from its last renewal, and after that for up to a quarter of the TTL of the Store that notices:
// what has run out is removed when another Store renews its session or joins a queue.
package redis
