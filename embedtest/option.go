//go:build unix

package embedtest

import "time"

// An Option changes how servers are set up. It holds for every member of an ensemble.
type Option func(*settings)

type settings struct {
	fsync     bool
	bench     bool
	tick      time.Duration // ZooKeeper's
	syncTicks int
	lines     []string // of the configuration of a database server
	clock     bool
	version   string // of MySQL
}

func settingsOf(options []Option) settings {
	s := settings{tick: zooKeeperTick, syncTicks: zooKeeperSyncTicks}
	for _, option := range options {
		option(&s)
	}
	return s
}

// Fsync makes the servers sync their files before they answer, as in production.
func Fsync() Option { return func(s *settings) { s.fsync = true } }

// Bench sets the servers up to be measured: the members of an ensemble talk to one another directly, which takes a
// third off the time of an etcd put, so that Isolate panics; and java takes its time to start, and optimises fully.
func Bench() Option { return func(s *settings) { s.bench = true } }

// Ticks sets the tick of ZooKeeper servers, and its syncLimit: a leader that hears nothing from a majority for so many
// ticks steps down, a follower that hears nothing from its leader looks for another. By default that is 5 ticks of 500
// ms. A session's timeout is at least two ticks. Ticks has no effect on etcd.
func Ticks(tick time.Duration, syncLimit int) Option {
	return func(s *settings) { s.tick, s.syncTicks = tick, syncLimit }
}

// Setting adds a line to the configuration of a PostgreSQL, MariaDB or MySQL server, such as "max_connections = 400".
func Setting(line string) Option { return func(s *settings) { s.lines = append(s.lines, line) } }

// Clock gives a ZooKeeper, PostgreSQL, MariaDB or MySQL server a clock of its own, which StepClock sets.
func Clock() Option { return func(s *settings) { s.clock = true } }

// Version says which MySQL runs: a version that scripts/server-versions.sh has unpacked into the user's cache, such as
// "9.7", or, with a slash in it, the folder that it was unpacked in, with usr/sbin/mysqld or bin/mysqld. Without this
// option the environment variable FARSYNC_MYSQL says so, in the same way, and without that it is 9.7.
func Version(version string) Option { return func(s *settings) { s.version = version } }
