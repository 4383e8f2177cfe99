// Package sqlite keeps farsync's queues in an SQLite file, for the processes of one machine. It needs no server and no cgo:
// the library is modernc.org/sqlite.
//
//	store, err := sqlite.Open(ctx, "/var/lib/billing/locks.db", nil)
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	mu := farsync.NewMutex(store, "/locks/billing")
//
// # What it writes
//
// An entry of a queue is a row of farsync_entries. Its revision is the row's AUTOINCREMENT key, so that a number is never
// used twice. It is inserted by BEGIN IMMEDIATE, which lets one writer into the file at a time, so the order of revisions
// is that of commits. farsync_sessions has a row for each Store, farsync_registers the sizes of semaphores, and
// farsync_watches what sessions wait for. The file may have tables of the program's own, which [Guard] can protect. It is in
// WAL mode from the first Open on.
//
// A program that is not farsync's can take part: a row of farsync_entries of another kind counts as exclusive. It needs a
// session that lives. An entry without one would block its queue for ever, and Lock then fails with an error that names it.
//
// # How others hear of a change
//
// Each session has a datagram socket in the directory <file>-farsync. A change of an entry or a register runs triggers, which
// write down in farsync_told the sessions that have to look. The client that commits the change sends them datagrams. A datagram
// may be lost: a session that waits checks once a second whether the file has changed. A change that an operator makes by hand
// runs the same triggers. Where sockets cannot be made, a session that waits checks every 10 ms. A session that does not wait
// does nothing but renew.
//
// # How writers take turns
//
// SQLite lets one transaction write at a time, and has no order among those that try. Stores come in the order in which they began to
// try, by a file beside the database, <file>-gate. It needs no care: it may be deleted while no Store is open. On Linux this holds
// between processes, elsewhere between the goroutines of one Store.
//
// # How long a lock stays with a process that died
//
// Until another session notices: its socket refuses. A session that tries knocks at once. A session that waits knocks after 0.1
// seconds, and then less often, in the end twice a second. It ends the dead session. A process that is stopped, or whose socket
// cannot be reached, keeps its locks for the TTL, and after that for up to a quarter of the TTL of the Store that notices. So does a
// process with the option Linger.
//
// # Clocks
//
// On Linux the deadlines in the file are by the clock that counts from the boot, and that cannot be set. It stands
// still while the machine sleeps. A holder's own deadline counts the sleep, so it only comes earlier. A session of an
// earlier boot is waited out for one TTL after the next Open. On other systems the deadlines are by the time of day:
// a step forward of more than what is left of a TTL lets others take locks that are held, and a step back keeps those
// of dead processes for as much longer.
//
// # What it needs
//
// A local disk: on a network file system the write-ahead log does not work. On Linux, Open refuses file systems that it
// does not know to be local. Containers on one machine may share the file. All processes need the right to write the file,
// its directory, <file>-farsync and <file>-gate; those of another user hear of changes with up to a second's delay.
//
// SQLite 3.51.3 or later, in every program that writes the file, the sqlite3 shell included: an earlier one can damage a file that
// several processes write. The version that farsync compiles in is late enough.
//
// POSIX drops a process's locks on a file when any descriptor of that file is closed in it. modernc.org/sqlite takes care
// of its own. So a process that has a Store on the file must not open it by other means: not with another SQLite library,
// and not to copy it.
//
// A transaction of another program that writes keeps all changes waiting, and a process that is stopped in the middle of a
// write does so until it goes on. Waiting for longer than the TTL, a Store loses its session; no other
// client is given the locks meanwhile, for that is a write, too.
//
// # After a crash of the machine
//
// The last changes may be undone unless the option Sync is set. No holder has survived either, so no lock has two. A new
// file in the place of a deleted one counts its revisions from the time of day, so tokens do not go back unless the clock does.
package sqlite
