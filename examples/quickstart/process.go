//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/farsync/farsync"
)

// A process is a worker's process, as the show sees it.
type process struct {
	name    string
	command *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	closing chan struct{} // closed by stop: nobody takes reports any more
	gone    chan struct{} // closed when the process has been reaped

	// What the show knows of it; for the show's goroutine alone.
	ready   bool
	holding bool
	token   farsync.Token // of the lease under which it is holding
	read    int           // the number it has read by then
	late    int           // refused requests
	lost    bool          // what its lease said at the last of them
	over    bool
	word    string // its fate, in a word
}

// startProcess starts a worker, which reports to the channel. It must be stopped in the end.
func startProcess(c workerConfig, reports chan<- report) (*process, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{name: c.Name, closing: make(chan struct{}), gone: make(chan struct{})}
	p.command = exec.Command(executable, "worker", string(config))
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
	go p.keep(stdout, reports) // ends with the process; stop joins it
	return p, nil
}

// keep passes the process's reports on until it ends, and then says how.
func (p *process) keep(stdout io.Reader, reports chan<- report) {
	defer close(p.gone)
	pass := func(r report) {
		r.from = p
		select {
		case reports <- r:
		case <-p.closing:
		}
	}
	lines := json.NewDecoder(stdout)
	for {
		var r report
		if lines.Decode(&r) != nil {
			break
		}
		pass(r)
	}
	_, _ = io.Copy(io.Discard, stdout) // after something that is not a report; the pipe must not fill up
	err := p.command.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w %s", p.name, err, strings.TrimSpace(p.stderr.String()))
	}
	pass(report{Event: ended, err: err})
}

// cue lets the worker go on from where it waits. An error means that it is gone, which its end will tell.
func (p *process) cue() { _, _ = io.WriteString(p.stdin, "go on\n") }

// kill ends the process at once: no signal handler runs, no deferred call, no farewell to etcd.
func (p *process) kill() { _ = p.command.Process.Kill() }

// pause stops all of its threads where they are. It does not notice.
func (p *process) pause() { _ = p.command.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() { _ = p.command.Process.Signal(syscall.SIGCONT) }

// stop ends the process, in good order if it can within the time, and returns when it is gone.
func (p *process) stop(within time.Duration) {
	close(p.closing)
	_ = p.stdin.Close()
	p.resume()
	force := time.AfterFunc(within, p.kill)
	defer force.Stop()
	<-p.gone
}
