//go:build unix

package main

import (
	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
)

// A process is a worker's process, and what the show knows of it; for the show's goroutine alone.
type process struct {
	*program.Process

	ready   bool
	holding bool
	token   farsync.Token // of the lease under which it is holding
	read    int           // the number it has read by then
	late    int           // refused requests
	lost    bool          // what its lease said at the last of them
	over    bool
	word    string // its fate, in a word
}
