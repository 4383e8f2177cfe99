//go:build unix

// Live shows ten processes and their locks in a browser, on a page of package live.
//
//	go run ./examples/live
//
// It prints the address of the page, and goes on until Ctrl-C. Three processes lock one after the other, three share two units of a
// semaphore, one is stopped while it holds a lock and loses it to another, and two take two locks in opposite orders: the page
// shows the deadlock until they give up, and again when they try again. All of it is in an SQLite file, so nothing has to be
// installed.
//
// The file to imitate is page.go. The rest is the show, much of it shared with the other examples, in
// examples/internal/program.
package main

import "github.com/farsync/farsync/examples/internal/program"

func main() {
	program.Program{Name: "live", Usage: usage, Parse: parse, Work: workerMain}.Main()
}
