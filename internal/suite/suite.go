// Package suite says which of the two suites a test belongs to. make test has what is true on any machine, however slow and busy it is;
// make long has the rest, by area: what kills, stops and cuts off, what sets clocks, what crowds, what counts traffic while timers fire.
//
// A test says so by itself, in its own body, for internal/suite/list reads it there: by Long if all of it is for make long, by More
// if a part is.
package suite

import (
	"testing"
)

// An Area is a part of make long: make long AREA=etcd.
type Area string

// The areas. A test belongs to the area of what a change would have to touch to break it.
const (
	Etcd      Area = "etcd"
	ZooKeeper Area = "zk"
	Redis     Area = "redis"
	Postgres  Area = "postgres"
	MySQL     Area = "mysql"
	SQLite    Area = "sqlite"
	Command   Area = "command"
	Live      Area = "live"
	Quorum    Area = "quorum"
	Layers    Area = "layers"
	Model     Area = "model"
)

// Long leaves t to make long of that area: go test -short skips it. Why is the reason, for whoever reads what was skipped.
func Long(t testing.TB, area Area, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("for make long AREA=%s: %s", area, why)
	}
}

// More reports whether t is to do what it does in make long of that area alone. With go test -short it is not.
func More(_ testing.TB, _ Area) bool { return !testing.Short() }
