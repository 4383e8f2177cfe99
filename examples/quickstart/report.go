//go:build unix

package main

import "github.com/farsync/farsync"

// An event is what a worker tells the show.
type event string

const (
	ready   event = "ready"   // it has a store and waits for the start
	holding event = "holding" // it holds, has read, and waits between read and write for what happens to it
	late    event = "late"    // a request of its was refused, by its token
)

// A report is one line of JSON from a worker to the show.
type report struct {
	Event event
	Token farsync.Token // holding
	Read  int           // holding: the number that was read
	Lost  bool          // late: the lease said that it was lost, as it must
}
