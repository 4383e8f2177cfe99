// Package sqlite keeps farsync's queues in an SQLite file, for the processes of one machine. It needs no server and no
// cgo: the library is modernc.org/sqlite.
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
// An entry of a queue is a row of farsync_entries. Its revision is the row's AUTOINCREMENT key, so that a number is
// never used twice. It is inserted by BEGIN IMMEDIATE, which lets one writer into the file at a time, so the order of
// revisions is the order of commits. farsync_sessions has a row for each Store, farsync_registers the sizes of
// semaphores, and farsync_watches what sessions wait for. The file may have tables of the program's own, which [Guard]
// can protect. It is in WAL mode from the first Open on.
//
// A program that is not farsync's can take part: a row of farsync_entries of another kind counts as exclusive. It needs
// a session that lives. An entry without one would block its queue for ever, and Lock then fails with an error that
// names it. A session whose deadline is 0 is over, and its entries are being removed.
//
// # How others hear of a change
//
// Each session has a datagram socket in the directory <file>-farsync. A change of an entry or a register runs triggers,
// which write down in farsync_told the sessions that have to look. The client that commits the change sends them
// datagrams. A datagram may be lost: a session that waits checks once a second whether the file has changed. A change
// that an operator makes by hand runs the same triggers. Where sockets cannot be made, a session that waits checks
// every 10 ms. A session that does not wait renews, and looks four times a second whether the path still names its
// file.
//
// # How writers take turns
//
// SQLite lets one transaction write at a time, and has no order among the connections that try. Stores come in the
// order in which they began to try, by a file beside the database, <file>-gate. It needs no care: it may be deleted
// while no Store is open. On Linux this holds between processes, elsewhere between the goroutines of one Store.
//
// # How long a lock stays with a process that died
//
// Until another session notices: its socket refuses. A session that tries knocks at once. A session that waits knocks
// after 0.1 seconds, and then less often, in the end twice a second. It ends the dead session: a thousand entries in a
// transaction, between which other sessions renew. A process that is stopped, or whose socket cannot be reached, keeps
// its locks for the TTL, and after that for up to a quarter of the TTL of the Store that notices. So does a process
// with the option Linger, or whose Store has called Lease.Outlast, Lease.ReleaseAfter or Mutex.TryDo.
//
// # Clocks
//
// On Linux the deadlines in the file are by the clock that counts from the boot, and that cannot be set. It stands
// still while the machine sleeps. A holder's own deadline counts the sleep, so it only comes earlier. A session of an
// earlier boot is waited out for one TTL after the next Open. On other systems the deadlines are by the time of day:
// a step forward of more than the rest of a TTL lets others take locks that are held, and a step back keeps the
// locks of dead processes for as much longer.
//
// # What it needs
//
// A local disk: on a network file system the write-ahead log does not work. On Linux, Open refuses file systems that it
// does not know to be local. Containers on one machine may share the file if its directory is mounted into them: Open
// refuses a file that is mounted by itself, on Linux 5.8 or later. All processes need the right to write the file, its
// directory, <file>-farsync and <file>-gate. Processes of another user hear of changes with up to a second's delay. On
// Linux a file that Open makes is its user's alone, or its group's too in a directory with the set-group-ID bit to
// which the group may write (mode 2770), whatever the umask is.
//
// SQLite 3.51.3 or later, in every program that writes the file, the sqlite3 shell included: an earlier one can damage
// a file that several processes write. The version that farsync compiles in is late enough.
//
// POSIX drops a process's locks on a file when any descriptor of that file is closed in it. modernc.org/sqlite takes
// care of its own. So a process that has a Store on the file must not open it by other means: not with another SQLite
// library, and not to copy it. Otherwise the next process that closes the file takes itself for the last, and removes
// the log: the sessions of the Store end then.
//
// A transaction of another program that writes keeps all changes waiting, and a process that is stopped in the middle
// of a write does so until it goes on. Waiting for longer than the TTL, a Store loses its session; no other client is
// given the locks meanwhile, for that is a write, too.
//
// # A file that is removed, renamed or put back
//
// A session ends as soon as its path names another file, or none, or the log beside it is another: within a quarter of
// a second, and with the next request. Its leases are lost, with words that say so, and the Store opens the file that
// is there. A file that is new, or was put in the place of another, grants nothing before the sessions in the other
// have ended. Their sockets tell of them, and they are told at once. A process that is stopped is waited for until a
// TTL has passed, if all Stores have one TTL, and Open fails with farsync.ErrUnavailable until then. Two may hold for
// up to a quarter of a second where nothing tells of the holder: <file>-farsync was removed as well, or the directory
// was renamed, or sockets cannot be made.
//
// Content that goes back in the same file, as with .restore of the sqlite3 shell, is noticed by a session with its next
// entry or its next renewal: two may hold for up to a quarter of the TTL. A backup that is written over the file while
// that is open, as by cp, damages it. To put a backup in the place of a file, rename it there, and remove -wal and
// -shm.
//
// Make a backup with VACUUM INTO, or with .backup, of the sqlite3 shell: in a process that has no Store on the file.
//
// A file has one name: Open refuses a file with several hard links, for each would have a log of its own. Symbolic
// links are followed.
//
// # Readers
//
// A transaction that reads for long, such as a backup's, keeps the log beside the file, -wal, from being
// folded into it: the log grows by some 36 KB an acquisition. It is cut to 4 MB once the reader has gone.
//
// # After a crash of the machine
//
// The last changes may be undone unless the option Sync is set. No holder has survived either, so no lock has two.
//
// Revisions are the time of day in microseconds, or the last revision and one. So tokens do not go back when a file is
// deleted or an earlier one is put in its place, unless the clock does.
package sqlite
