//go:build unix

package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Process is a worker's process, as the show sees it.
type Process struct {
	Name    string
	command *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	closing chan struct{} // closed by stop: no one takes reports any more
	gone    chan struct{} // closed when the process has been reaped
}

// A Report is one thing that a worker tells the show, in a line of JSON on its standard output.
type Report[R any] struct {
	From *Process
	Told R
	// Over: it has told everything, for its process has ended; Err says how, if not well.
	Over bool
	Err  error
}

// Start starts a worker with its part, which reports to the channel. It must be stopped in the end.
func Start[R any](name string, part any, reports chan<- Report[R]) (*Process, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(part)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, closing: make(chan struct{}), gone: make(chan struct{})}
	p.command = exec.Command(executable, workerRole, string(text))
	p.command.Stderr = &p.stderr
	p.command.SysProcAttr = dieWithParent()
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go keep(p, stdout, reports) // ends with the process; stop joins it
	return p, nil
}

// keep passes the process's reports on until it ends, and then says how.
func keep[R any](p *Process, stdout io.Reader, reports chan<- Report[R]) {
	defer close(p.gone)
	pass := func(r Report[R]) {
		r.From = p
		select {
		case reports <- r:
		case <-p.closing:
		}
	}
	lines := json.NewDecoder(stdout)
	for {
		var r Report[R]
		if lines.Decode(&r.Told) != nil {
			break
		}
		pass(r)
	}
	_, _ = io.Copy(io.Discard, stdout) // after something that is not a report; the pipe must not fill up
	err := p.command.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w %s", p.Name, err, strings.TrimSpace(p.stderr.String()))
	}
	pass(Report[R]{Over: true, Err: err})
}

// Cue lets the worker go on from where it waits. An error means that it is gone, which its end will tell.
func (p *Process) Cue() { _, _ = io.WriteString(p.stdin, "go on\n") }

// Kill ends the process at once: no signal handler runs, no deferred call, no farewell to the service.
func (p *Process) Kill() { _ = p.command.Process.Kill() }

// Pause stops all of its threads where they are. It does not notice.
func (p *Process) Pause() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() { _ = p.command.Process.Signal(syscall.SIGCONT) }

// Dismiss tells the worker that the show is over for it, and takes its last reports.
func (p *Process) Dismiss() { _ = p.stdin.Close() }

// stop ends the process, in good order if it can within the time, and returns when it is gone.
func (p *Process) stop(within time.Duration) {
	close(p.closing)
	p.Dismiss()
	p.Resume()
	force := time.AfterFunc(within, p.Kill)
	defer force.Stop()
	<-p.gone
}

// StopAll ends processes, in good order if they can within a second, and returns when they are gone.
func StopAll(processes []*Process) {
	var all sync.WaitGroup
	for _, p := range processes {
		all.Go(func() { p.stop(time.Second) })
	}
	all.Wait()
}
