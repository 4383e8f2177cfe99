//go:build unix

// Command etcdserver is the etcd server of tests that run with the race detector:
//
//	go build -o /tmp/etcdserver github.com/farsync/farsync/embedtest/etcdserver
//	FARSYNC_EMBEDTEST_PROGRAM=/tmp/etcdserver go test -race ./...
//
// Package embedtest starts it then in place of the test's own executable. An etcd inside of a test's executable would be watched by the
// detector, too, which takes several times as long, and looks for nothing that is the test's.
package main

import (
	"fmt"
	"os"

	"github.com/farsync/farsync/embedtest"
)

func main() {
	embedtest.Child()
	fmt.Fprintln(os.Stderr, "etcdserver: a test starts it, by package embedtest")
	os.Exit(2)
}
