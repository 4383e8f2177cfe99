//go:build unix

// Quickstart shows what a distributed lock is for, and what it takes to trust one.
//
//	go run ./examples/quickstart
//
// A number is kept in a file. Four processes add 1 to it, 250 times each: read, add, write, under one farsync.Mutex on
// an etcd that is started for the run (or a ZooKeeper: -store zk, or an SQLite file: -store sqlite). Nothing else protects the number: the file sits behind a small HTTP server,
// which serves a read and a write as two requests that have nothing to do with each other and never compares what is
// written with what was read. If ever two processes are between their read and their write at the same time, an add
// is lost.
//
// Then it gets rough:
//
//   - One process is killed while it holds the lock, has read and has not written. It does not release its lock; the service gives
//     it to the next when the TTL has passed. A new process does the adds that were left.
//   - One process is stopped at the same point for longer than the TTL, and then goes on as if nothing had happened. By
//     then others have held the lock and added. Its late write would set the number back; no lock service can stop it,
//     for it is not asked. The server can: every request carries the fencing token of its lease, and the server refuses
//     a token lower than one it has seen. The process then finds that its lease is lost, and does that add again.
//
// In the end the number has to be 1000. The flags -no-lock and -no-fence leave out one protection each, to see what
// it is for: the number comes out too small.
//
// The file to imitate is worker.go. The server's half of the fence, a comparison of two integers, is in resource.go.
// The rest is the show, much of it shared with the other examples, in examples/internal/program.
package main

import "github.com/farsync/farsync/examples/internal/program"

func main() {
	program.Program{Name: "quickstart", Usage: usage, Parse: parse, Work: workerMain}.Main()
}
