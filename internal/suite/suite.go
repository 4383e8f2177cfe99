// Package suite says which of the two suites a test belongs to. make test has what is true on any machine, however slow and busy it is;
// make long has the rest, by area: what kills, stops and cuts off, what sets clocks, what crowds, what counts traffic while timers fire.
//
// A test says so by itself, in its own body, for internal/suite/list reads it there: by Long if all of it is for make long, by More
// if a part is.
package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// notRunVariable names the file in which scripts/test.sh and scripts/long.sh have what was not run on this machine.
const notRunVariable = "FARSYNC_NOT_RUN"

// NotHere skips t, which cannot be run on this machine or by this user, and has make test and make long name it at their end with
// what it needs: go test says nothing of a skipped test in a package that passes. A missing server is no matter of NotHere; make
// test fails without it.
func NotHere(t testing.TB, needs string) {
	t.Helper()
	if file := os.Getenv(notRunVariable); file != "" {
		if err := noteIn(file, t.Name(), needs); err != nil {
			t.Fatal(err)
		}
	}
	t.Skipf("not run here: needs %s", needs)
}

// noteIn adds a line in one write, for packages that run at the same time share the file.
func noteIn(file, test, needs string) error {
	folder, err := os.Getwd() // go test runs a package in its own
	if err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	one := strings.Join(strings.Fields(needs), " ") // the words of a program may be several lines
	_, err = fmt.Fprintf(to, "%s\t%s\t%s\n", filepath.ToSlash(folder), test, one)
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}
