//go:build unix

package main

import (
	"encoding/json"

	"github.com/farsync/farsync/examples/internal/program"
)

// A workerConfig is a worker's part, given to its process as JSON.
type workerConfig struct {
	Name      string
	Number    string // URL
	Service   program.Service
	Primitive string // empty: work without a lock
	Adds      int
	StopAt    int // wait between the read and the write of this add, counted from 1; 0: of none
}

// workerMain is the main of a worker's process.
func workerMain(part json.RawMessage) error {
	var c workerConfig
	if err := json.Unmarshal(part, &c); err != nil {
		return err
	}
	meets, ctx := program.NewStage()
	s := &stage{Stage: meets, stopAt: c.StopAt}
	if c.Primitive == "" {
		return workUnlocked(ctx, c, s)
	}
	return work(ctx, c, s)
}
