// Package mysql keeps farsync's queues in a MySQL or MariaDB database, by the client github.com/go-sql-driver/mysql.
//
//	dsn := "app@tcp(db:3306)/app"
//	err := mysql.Migrate(ctx, dsn) // once, or by the program's own migrations: see Schema
//	…
//	store, err := mysql.Open(ctx, dsn, nil)
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
// has a row for each Store, and farsync_registers the sizes of semaphores. A program that is not farsync's can take
// part: it calls farsync_create_4 with a session that lives and a kind of its own, which counts as exclusive.
//
// A step is the call of one procedure, a whole transaction in one request. So a process that is stopped, and a
// connection that is cut, leave no row locked at the server, and a proxy that sends reads to replicas takes no step for
// a read. A request that its caller has given up runs on at the server: if it waits for a row that is locked, for up to
// a second, and a request that joins a queue may wait several times. The Store undoes a change that comes late. While
// it waits it keeps no renewal waiting.
//
// # How others hear of a change
//
// They look. A Store that waits looks with one request for all that it waits for: for the entry next in line after half
// a millisecond, and then after times that grow with how long the queue has stood still, to a fifth of a second. An
// entry that has others ahead of it is looked for more rarely, at the pace at which its queue moves, and after a
// second at the latest. Chance shortens each of these times by up to a half. A change made by the same Store is seen at
// once. A Store that does not wait only renews.
//
// # Connections
//
// A Store works with two connections. One renews its session, and is the only one while the Store does nothing; the
// other does everything else. It takes more to do several things at once: seven in all, or as many as the option
// Connections says, with up to seven more while its renewals are not answered, for each is left under way. Of the seven
// two at most join queues at a time, where entries wait for one another. A connection that is not made within five
// seconds is given up, unless the DSN has a longer timeout.
//
// A server has room for 151 connections by default, which all of its clients share. A Store gives up all connections
// but two for 10 to 20 seconds when the server has refused it one. It does so, too, when the server has room for less
// than a tenth more: a Store with more than two looks for that every few seconds. So a server that does nothing else
// has room for 75 Stores. When it is refused, the log says so, at Warn, with max_connections. farsync doctor says how
// many Stores the server has room for. A Store that has only the connection of its session, and is refused another,
// tries again.
//
// # Passwords and certificates that change
//
// The option BeforeConnect sets Passwd and TLS for each connection. A server that does not let the Store in, or is not
// trusted, is asked again for as long as the session lives, and refuses an Open at once. So it does not matter whether
// the server or the program hears of a new password first, if they do within the TTL.
//
// # How long a lock stays with a process that died
//
// For the TTL, and after that for up to a quarter of the TTL of the Store that notices: every renewal ends the sessions
// that have run out. Where more than 64 processes have died at once, or have left more than 1,000 entries, it goes on
// for half a second, or an eighth of the TTL if that is less, and leaves the rest to the next renewal, or to a TryLock
// on the path of an entry. While another client is ending a session that has an entry on its path, a TryLock does not
// answer: it looks again until the other is through, or its context ends.
//
// # What holds, and when
//
// Deadlines are by the clock of the server, in UTC, and a holder's own deadline counts from before the request. If that
// clock is set forward by more than two thirds of the TTL, others can be given locks that are held: let it be slewed.
// [Guard] keeps what is written in the same database from their earlier holders. After a crash of the server or its
// machine all holds if innodb_flush_log_at_trx_commit is 1, as it is unless changed, and, with a binary log,
// sync_binlog is 1, as it is on MySQL unless changed, and is not on MariaDB. Where they are not, a line at Warn says
// so, when a Store is opened and within half of the TTL of a change.
//
// A replica that was promoted and had not received all gives locks to others while their holders do not know: for how
// long two hold then, and what a guard does at which server, is a table of docs/WHICH-STORE.md. A lock that was
// released, and whose release that replica has not received, is released again with the next renewal of its Store.
//
// The tables have to be in InnoDB, whose locks of rows the procedures rest on. Open fails where a table is in another
// engine, because somebody has converted it, or because MariaDB, with enforce_storage_engine, has made it there. If a table
// is converted under a running Store, the session is not renewed any more.
//
// A server that has become a replica must be read-only. That stops no user with SUPER or READ_ONLY ADMIN, as root is
// one. Opening, joining and renewing fail there all the same, but what calls earlier procedures goes on: give a Store a
// user of its own, without these.
//
// It needs MySQL 8.0.29 or later, or MariaDB 10.6 or later, with a binary log of rows, or none. Isolation levels,
// sql_mode, time zone, autocommit, completion_type, foreign_key_checks, character sets and multiple statements may be
// as the server and the DSN have them. For a Store the user needs SELECT, INSERT, UPDATE, DELETE and EXECUTE on the
// database. The tests run on MySQL 9.7 and on MariaDB 10.11. A dump of the database must include its routines:
// mysqldump --routines.
package mysql
