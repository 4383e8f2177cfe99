//go:build unix

// Package embedtest starts real etcd, ZooKeeper, Redis, PostgreSQL, MariaDB and MySQL servers for tests, as child
// processes that can be stopped, killed, restarted at the same address, and cut off.
//
// It serves tests of code that uses farsync, or any other client of these servers, and programs that bring a server of
// their own for a demonstration. Nothing has to be installed for etcd: the child is the running executable once
// more, so a package that uses it needs this TestMain, in one line:
//
//	func TestMain(m *testing.M) { embedtest.Main(m) }
//
// and a program that is not a test calls [Child] first in main. (Where tests run with the race detector, the child
// does, too, which makes an etcd several times as slow. FARSYNC_EMBEDTEST_PROGRAM names another program for it:
// embedtest/etcdserver, built without the detector, or any other whose main calls [Child].) After that:
//
//	server := embedtest.Etcd(t) // ready, and gone with t
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
//
// ZooKeeper is run by java from the jars of Debian's zookeeper package, or from those under ZOOKEEPER_HOME; see
// [ZooKeeper] for what happens where there are none. [Postgres] and [MariaDB] are the programs of Debian's packages, or
// those on the PATH. They are single servers, and farsync's fencing tokens are tried on them. [Redis] is the
// redis-server on the PATH. [MySQL] is a server that was unpacked into a folder, for Debian's releases have none:
// [Version] says into which.
//
// # Addresses
//
// Nothing is shared between tests and no port is fixed. A server listens on its TCP port itself, with no forwarding in
// between; the port is kept for it by a socket in this process that is bound and does not listen. So no other process
// is given the port while the server is dead, a connection to a dead server is refused, as it would be, and Restart
// finds its address free. (Only Linux shares a port in that way. Elsewhere the port is picked free and let go again,
// and another process may take it first.)
//
// # Faults
//
// Pause stops a server the way a long stall would: connections stay open and nothing answers. Kill ends it without any
// farewell. FillDisk has each write to a file fail, and most servers end. Isolate cuts a member off from the other
// members of its ensemble, in both directions, Mute and Deafen in one, while its clients still reach it. A [Proxy]
// stands between one client and one server, and loses what it is told to lose.
//
// # Settings
//
// The servers are set for fast tests: short ticks and elections, and no fsync, so that what is written survives the
// death of the server but not of the machine. Never keep anything in them that matters. A Store on PostgreSQL, MariaDB
// or MySQL warns of such a server, unless the option Fsync is set.
//
// Children never outlive the process that started them, however it ends. On Linux the kernel sees to that, even for a
// child that is paused; elsewhere an etcd child leaves when its parent's end of a pipe closes, and a java child may
// stay.
package embedtest
