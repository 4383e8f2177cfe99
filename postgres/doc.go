// Package postgres keeps farsync's queues in a PostgreSQL database, by the client github.com/jackc/pgx/v5.
//
//	config, err := pgxpool.ParseConfig("postgres://app@db/app")
//	…
//	err = postgres.Migrate(ctx, config.ConnConfig) // once, or by the program's own migrations: see Schema
//	…
//	store, err := postgres.Open(ctx, config, nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
// # What it writes
//
// An entry of a queue is a row of farsync_entries. Sessions that join a queue take turns at its row in farsync_queues,
// which has the last revision: the order of revisions is the order of commits. A revision is the time of the server in
// microseconds, or the last revision and one, so revisions also go on in a database that was restored. farsync_sessions
// has a row for each Store, farsync_registers the sizes of semaphores, and farsync_watches what sessions wait for. A
// program that is not farsync's can take part: it inserts a row of another kind with a session that lives, which counts
// as exclusive.
//
// # How others hear of a change
//
// A waiter for one entry alone, as for a Mutex, waits at the server for the key of that entry: an advisory lock that a
// connection of the entry's session keeps for it. A key wakes one process. It does not say which entry holds the lock:
// the waiter then looks at the table. Each waiter costs three statements and no notification, however many wait. A
// session has keys for half of its pool at most. A key that is not used for a second goes back to the pool with the
// next renewal.
//
// For everything else, and where there is no key, a trigger notifies the sessions that have to look, by NOTIFY in the
// transaction of the change. A Store listens while it waits for that, by a connection beside its pool, and for about a
// second afterwards. A Store that does not wait only renews, and a lock that no other client wants notifies nobody.
// Such a waiter costs four statements and one notification.
//
// # Connections
//
// A Store works with two connections. One renews its session, and is the only one while the Store does nothing; the
// other is for all calls. It takes more to do several things at once, to keep keys, and to listen: six by default, or
// two more than MaxConns of the config, with up to three more while its renewals are not answered. The option
// Connections says how many it takes at most. Calls that join the queue of one path take turns at the server, so a Store
// sends several of them at once only while the way to the server takes longer than the turns, and one at a time
// otherwise. One of its connections is always left to calls that join no queue, a Release for example. Calls that join
// queues may then wait here for one another: raise Connections if one Store has callers on many busy paths.
//
// A server has room for 100 connections by default, which all of its clients share. A Store gives up all connections
// but two for 10 to 20 seconds when the server has refused it one. It does so, too, when the server has room for less
// than a tenth more: a Store with more than two looks for that every few seconds. So a server that does nothing else
// has room for 48 Stores. Meanwhile calls wait for one another, one key at a time has their connection until a call
// needs it, and the session listens by the connection that renews it. When the server has refused a connection, the log
// says so, at Warn, with max_connections. farsync doctor says how many Stores the server has room for. A Store that has
// only the connection of its session, and is refused another, tries again.
//
// # Behind a proxy
//
// Stores work through a proxy that lends its connections for a transaction, as PgBouncer does in that mode. Through it
// they prepare no statements, and have no keys. LISTEN needs a connection of its own: the option Listen leads to the
// server itself. Without it a Store polls while it waits, with one request for all its waiters, and logs a line that
// says so. The next in line is late by about a sixteenth of its wait, and by a fifth of a second at most. That the
// other side is a proxy is seen in the process number that it gives out, so a proxy that pools sessions is taken for a
// proxy that pools transactions. A call whose ctx ends gives its connection up, where it would have the server cancel
// the statement otherwise: a proxy is sent no request to cancel, for PgBouncer before 1.20 may end of one. The
// statement may wait at the server for 5 seconds more, for a transaction with a [Guard] or with [LockTx].
//
// # Callers who give up
//
// A call whose ctx ends has the server cancel its statement, and returns when the server has done so, or a tenth of a
// second later. The request to cancel is a connection of its own for a moment, for which a server has room in any case.
//
// # Isolation
//
// The connections of a Store are at READ COMMITTED, whatever default_transaction_isolation is for the server, the
// database, the role or in the config, also if that is changed later. A connection to the server itself is set to it
// once, when it is made: let no hook of the pool reset it. Through a proxy each transaction is, in the same request,
// and the connections that the proxy lends to other clients keep their default.
//
// # Passwords and certificates that change
//
// Set Password and TLSConfig in the BeforeConnect of the pgxpool.Config, which is called for each connection, also for
// a connection that listens. It is waited for as long as a server: for the ConnectTimeout, or 5 seconds. A server that
// does not let the Store in, or is not trusted, is asked again for as long as the session lives, and refuses an Open at
// once. So it does not matter whether the server or the program hears of a new password first, if they do within the
// TTL.
//
// # Functions of the config
//
// The functions and the Tracer of the config, and of the option Listen, may block, whatever their ctx says, and panic: that
// is logged. No other call, no renewal and no Close waits for them.
//
// The Tracer, OnNotice and OnPgError are waited for a tenth of a second at most in each step of the Store, a renewal for
// example, all their calls together. Then the step goes on, and calls them without waiting. A Tracer that is late at the
// start of a statement is told the end after that, with the ctx that its start has returned. What it is told of a
// statement, or of a batch, comes one after the other. While eight calls of a function are late it is not called. A late
// function may read the custom data of its connection.
//
// ShouldPing is waited for a tenth of a second at most for each connection. It is not called while one call is late, and
// for half a minute after that: then each connection has to answer.
//
// The others are as a server that does not answer: a call that needs a connection ends with its ctx, and Close waits for
// a second. A renewal needs a new connection only if its own has broken: after MaxConnLifetime the Store keeps that
// connection until it has another. PrepareConn, BeforeAcquire, AfterRelease and ShouldPing keep the connection that they
// have when they are late, and the Store closes it below them. AfterRelease has a second. BeforeClose is not called for
// each connection: most are closed outside of the pool, and others while two calls of it are under way.
//
// # How long a lock stays with a process that died
//
// For the TTL, and after that for up to a quarter of the TTL of the Store that notices: every renewal ends the sessions
// that have run out.
//
// # What holds, and when
//
// Deadlines are by the clock of the server, and a holder's own deadline counts from before the request. If that clock
// is set forward by more than two thirds of the TTL, others can be given locks that are held: let it be slewed. [Guard]
// keeps what is written in the same database from their earlier holders. After a crash of the server or its machine all
// holds if fsync and synchronous_commit are on, as they are unless changed. Where one is off, or the latter is local
// although there is a synchronous replica, or a table of farsync other than farsync_watches is UNLOGGED, a line at Warn
// says so, when a Store is opened and within half of the TTL of a change.
//
// A replica that was promoted and had not received all, because it is not synchronous, gives locks to others while
// their holders do not know: for how long two hold then, and what a guard does at which server, is a table of
// docs/WHICH-STORE.md. A lock that was released, and whose release that replica has not received, is released again
// with the next renewal of its Store.
//
// A synchronous replica keeps its promise only where synchronous_commit is on, or remote_apply, for all Stores: a Store
// whose role, database or config has it off or local is answered without the replica. While no such replica
// answers, nothing is granted or renewed, and leases end.
//
// It needs PostgreSQL 14 or later, and for a Store the rights to read and write the tables and to call the functions.
package postgres
