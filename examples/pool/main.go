//go:build unix

// Pool shows eight processes that share the work of 200 jobs, and together never do more than five at a time.
//
//	go run ./examples/pool
//
// Each job is a call of an HTTP server, which stands for a partner's API that takes five calls at once and no more. Each
// process runs its jobs in a farsync.Pool, as it would in an errgroup with a limit; but the limit is set by one
// farsync.Semaphore for all, on an etcd that is started for the run (or a ZooKeeper: -store zk, or an SQLite file: -store sqlite). The server counts how
// many calls it has at once, and is asked in the end.
//
// The flag -no-limit leaves the semaphore out, to see what it is for.
//
// The file to imitate is worker.go. The rest is the show, much of it shared with the other examples, in
// examples/internal/program.
package main

import "github.com/farsync/farsync/examples/internal/program"

func main() {
	program.Program{Name: "pool", Usage: usage, Parse: parse, Work: workerMain}.Main()
}
