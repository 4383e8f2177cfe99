//go:build unix

// Leader shows three processes. One of them leads, and the program shows what the others do when the leader
// dies.
//
//	go run ./examples/leader
//
// Three processes stand in one farsync.Election, on an etcd that is started for the run (or a ZooKeeper: -store zk, or an SQLite file: -store sqlite).
// The leader writes to an HTTP server, again and again, with the fencing token of its leadership. Every few seconds
// the leader is killed and does not resign, so the others wait until the TTL has passed, and then one of them leads. A
// new process takes the place of the dead one. An observer, which is none of the three, prints the leader.
//
// The server refuses a token lower than one it has seen, and writes down what it was sent. From that alone it is judged
// whether ever two led at the same time: as no process is stopped or slow here, a write that comes after one with a
// higher token would be one.
//
// The file to imitate is candidate.go. The rest is the show, much of it shared with the other examples, in
// examples/internal/program.
package main

import "github.com/farsync/farsync/examples/internal/program"

func main() {
	program.Program{Name: "leader", Usage: usage, Parse: parse, Work: candidateMain}.Main()
}
