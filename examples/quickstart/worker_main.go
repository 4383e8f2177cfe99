//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A workerConfig is a worker's part, given to its process as JSON.
type workerConfig struct {
	Name      string
	Number    string   // URL
	Endpoints []string // of etcd
	Path      string   // of the mutex; empty: work without one
	TTL       time.Duration
	Adds      int
	StopAt    int // wait between the read and the write of this add, counted from 1; 0: of none
}

// workerMain is the main of a worker's process.
func workerMain(args []string) int {
	var c workerConfig
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &c) != nil {
		fmt.Fprintln(os.Stderr, "quickstart: workers are started by quickstart itself")
		return misused
	}
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // a Ctrl-C goes to all processes; the show ends its workers itself
	s, ctx := newStage(os.Stdin, os.Stdout, c.StopAt)
	play := work
	if c.Path == "" {
		play = workUnlocked
	}
	if err := play(ctx, c, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return failed
	}
	return allRight
}
