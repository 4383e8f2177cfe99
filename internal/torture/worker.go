//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/farsync/farsync/internal/pause"
	"github.com/farsync/farsync/internal/torture/history"
)

// partVariable names the environment variable that makes a process a worker; its value is a part in JSON.
const partVariable = "FARSYNC_TORTURE_PART"

// A part is what a worker is to do.
type part struct {
	Process    string
	Recipe     string // ours, or stock
	Store      string
	Wires      [][]string // endpoints, of each Store
	Endpoints  []string   // of one Store; set by the worker
	Primitives []string
	Clients    int // goroutines of a Store
	Paths      int
	TTL        time.Duration
	Hang       time.Duration // what takes longer does not end
	Seed       uint64
	Dir        string // of the histories
	Resource   string // socket
}

// work is what a process does that was started to be a worker; in any other process it returns at once. A worker plays
// until its standard input ends. Then it takes each lock once more, closes all, and says on its standard output what
// must not have happened, a line each.
func work() {
	settings, ok := os.LookupEnv(partVariable)
	if !ok {
		return
	}
	var p part
	err := json.Unmarshal([]byte(settings), &p)
	if err == nil {
		err = p.play()
	}
	if err != nil {
		fmt.Println("worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (p part) play() error {
	stop := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	before := goleak.IgnoreCurrent()
	recorder, err := history.Create(p.Dir, p.Process)
	if err != nil {
		return err
	}
	var speaking sync.Mutex
	complain := func(format string, a ...any) {
		speaking.Lock()
		defer speaking.Unlock()
		fmt.Printf(format+"\n", a...)
	}
	life, end := context.WithCancel(context.Background())
	defer end()
	var machines sync.WaitGroup
	for i := range p.Wires {
		machines.Go(func() { p.machine(life, stop, i, recorder, complain) })
	}
	machines.Wait()
	if err := recorder.Close(); err != nil {
		return err
	}
	if p.Recipe == ours {
		awaitNoLeaks(before, p.Hang, complain)
	}
	return nil
}

// machine has the clients of one Store play.
func (p part) machine(life context.Context, stop <-chan struct{}, i int, recorder *history.Recorder, complain func(string, ...any)) {
	p.Endpoints = p.Wires[i]
	resource, err := reach(p.Resource)
	if err != nil {
		complain("the resource: %v", err)
		return
	}
	defer resource.connection.Close()
	from, err := p.open(life, stop)
	if err != nil {
		complain("no client was opened: %v", err)
		return
	}
	var clients, late sync.WaitGroup
	for j := range p.Clients {
		number := i*p.Clients + j
		c := &client{
			part: p, wire: i, number: number, random: rand.New(rand.NewPCG(p.Seed, uint64(number))), history: recorder, resource: resource,
			complain: complain, late: &late,
		}
		clients.Go(func() {
			c.play(life, stop, from)
			bounded, cancel := context.WithTimeout(life, p.Hang)
			defer cancel()
			c.finish(bounded, from)
			if bounded.Err() != nil {
				complain("hung: client %d was not served after the faults", number)
			}
		})
	}
	clients.Wait()
	if err := from.Close(); err != nil && p.Recipe == ours {
		complain("close: %v", err)
	}
	late.Wait()
}

// open opens a client as often as it takes: faults begin before all clients are there.
func (p part) open(life context.Context, stop <-chan struct{}) (locker, error) {
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(life, 10*time.Second)
		from, err := openers[p.Recipe](ctx, p)
		cancel()
		if err == nil || time.Since(begun) > 4*p.Hang {
			return from, err
		}
		_ = pause.For(life, 50*time.Millisecond)
	}
}

// awaitNoLeaks complains of goroutines that do not end.
func awaitNoLeaks(before goleak.Option, patience time.Duration, complain func(string, ...any)) {
	for begun := time.Now(); ; {
		err := goleak.Find(before)
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			complain("goroutines are left: %v", err)
			return
		}
	}
}
