package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/farsync/farsync/internal/pause"
)

// victimVariable tells a process to be a victim; its value is a victim in JSON.
const victimVariable = "FARSYNC_BENCH_VICTIM"

// A victim is a process that waits for a lock until it is killed.
type victim struct {
	Store string
	Side  string // farsync, or the name of the stock lock
	At    []string
	Path  string
}

// beVictim must be called before a program or a test does anything else. It returns unless the process was started to be a victim.
func beVictim() {
	text, is := os.LookupEnv(victimVariable)
	if !is {
		return
	}
	var v victim
	err := json.Unmarshal([]byte(text), &v)
	if err == nil {
		err = v.wait(context.Background())
	}
	fmt.Fprintln(os.Stderr, "bench: the process that was to be killed:", err)
	os.Exit(1)
}

func (v victim) wait(ctx context.Context) error {
	on := &stage{at: v.At, path: v.Path, site: &site{spec: siteSpec{store: v.Store}}}
	open := mutexKind.ourSide(storeOf(v.Store))
	if v.Side != ours {
		open = stockOf(v.Store).open
	}
	on.path += fmt.Sprint("-victim-", os.Getpid()) // its other lease is not one of the crowd's
	s, err := open(ctx, on, 1, 1)
	if err != nil {
		return err
	}
	fmt.Println("locking")
	_, err = s.takes[0](ctx, v.Path)
	return errors.Join(errors.New("got the lock"), err)
}

// startVictim has a process stand in line for the lock of a stage. It returns a function that kills the process.
func startVictim(ctx context.Context, on *stage, side string) (kill func() error, err error) {
	text, err := json.Marshal(victim{on.site.spec.store, side, on.at, on.path})
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, program)
	process.Env = append(os.Environ(), victimVariable+"="+string(text))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	kill = func() error {
		err := process.Process.Kill()
		_ = process.Wait() // it was killed
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.TrimSpace(line) != "locking" {
		err = fmt.Errorf("a process that was to be killed says %q", line)
	}
	if err == nil {
		err = pause.For(ctx, time.Second) // until its request has arrived
	}
	if err != nil {
		return nil, errors.Join(err, kill())
	}
	return kill, nil
}
