//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/farsync/farsync/internal/torture/history"
)

// A process is a worker, as its parent sees it.
type process struct {
	name    string
	command *exec.Cmd
	stdin   io.Closer
	errors  *os.File
	ended   chan struct{} // closed when it has, and what follows is known

	said   []string // complaints
	status error
	death  int64 // when it was over, at the latest
}

// startProcess starts a worker. Its executable is another than this one if it was built of changed sources.
func startProcess(executable string, p part) (*process, error) {
	settings, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	w := &process{name: p.Process, command: exec.Command(executable), ended: make(chan struct{})}
	if testing.Testing() {
		w.command.Args = append(w.command.Args, "-test.run=^$") // it is never reached
	}
	w.command.Env = append(os.Environ(), partVariable+"="+string(settings))
	if w.errors, err = os.Create(filepath.Join(p.Dir, p.Process+".stderr")); err != nil {
		return nil, err
	}
	w.command.Stderr = w.errors
	if w.stdin, err = w.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := w.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.command.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process, and is joined by all who wait for ended
		defer close(w.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			w.said = append(w.said, lines.Text())
		}
		w.status = w.command.Wait()
		w.death = history.Now()
		_ = w.errors.Close()
	}()
	return w, nil
}

// kill ends the process, and returns when it is gone.
func (w *process) kill() {
	_ = w.command.Process.Kill()
	<-w.ended
}

// finish has the process end by itself. If it does not, it is made to print its goroutines, and finish reports false.
func (w *process) finish(patience time.Duration) bool {
	_ = w.stdin.Close()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-w.ended:
		return true
	case <-over.C:
	}
	_ = w.command.Process.Signal(syscall.SIGQUIT)
	over.Reset(10 * time.Second)
	select {
	case <-w.ended:
	case <-over.C:
		w.kill()
	}
	return false
}

// complaints returns what an ended process has said, and why it failed if it did.
func (w *process) complaints() []string {
	list := w.said
	if _, failed := errors.AsType[*exec.ExitError](w.status); failed {
		text, _ := os.ReadFile(w.errors.Name())
		const most = 2000
		list = append(list, fmt.Sprintf("%v: %s", w.status, strings.TrimSpace(string(text[:min(len(text), most)]))))
	}
	return list
}

// A crew is the processes that run at the same time. A process that is killed is replaced.
type crew struct {
	executable string
	part       func(place, life int) part

	mu     sync.Mutex // guards what follows
	active []*process
	lives  []int
	gone   []*process // killed on purpose
}

func newCrew(executable string, size int, part func(place, life int) part) (*crew, error) {
	c := &crew{executable: executable, part: part, active: make([]*process, size), lives: make([]int, size)}
	for place := range size {
		var err error
		if c.active[place], err = startProcess(executable, part(place, 0)); err != nil {
			c.abandon()
			return nil, err
		}
	}
	return c, nil
}

// abandon kills all.
func (c *crew) abandon() {
	for _, w := range c.active {
		if w != nil {
			w.kill()
		}
	}
}

func (c *crew) at(place int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active[place]
}

// replace kills a process and starts another in its place.
func (c *crew) replace(place int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.active[place]
	w.kill()
	c.gone = append(c.gone, w)
	c.lives[place]++
	next, err := startProcess(c.executable, c.part(place, c.lives[place]))
	if err == nil {
		c.active[place] = next
	}
	return err
}

// place returns where a process is active.
func (c *crew) place(name string) (place int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place = slices.IndexFunc(c.active, func(w *process) bool { return w.name == name })
	return place, place >= 0
}

// stop stops a process until resume is called.
func (c *crew) stop(place int) (resume func()) {
	w := c.at(place)
	_ = w.command.Process.Signal(syscall.SIGSTOP)
	return func() { _ = w.command.Process.Signal(syscall.SIGCONT) }
}
