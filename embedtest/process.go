//go:build unix

package embedtest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A process is one run of a child.
type process struct {
	command  *exec.Cmd
	lifeline *os.File      // our end; closing it tells the child that we are gone
	exited   chan struct{} // closed once the child has been reaped
	err      error         // how it ended; read it after exited is closed
}

// startProcess starts the command, as another user if one is given, with its output appended to the log. The process
// must be killed in the end.
func startProcess(command *exec.Cmd, log string, as *syscall.Credential) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	command.Stdout, command.Stderr = output, output
	command.ExtraFiles = []*os.File{theirs}
	command.SysProcAttr = dieWithParent()
	command.SysProcAttr.Credential = as

	p := &process{command: command, lifeline: ours, exited: make(chan struct{})}
	started := make(chan error, 1)
	// The keeper ends when the child has been reaped; kill joins it. The kernel ties the child's life to the thread
	// that started it and not to the whole process, so the keeper holds its thread for as long as the child lives.
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := command.Start()
		started <- err
		if err == nil {
			p.err = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		_ = ours.Close()
		return nil, err
	}
	return p, nil
}

// pause stops the child, and then what it has forked: while it is stopped it forks no more.
func (p *process) pause() {
	// An error says that the child is gone, and then there is nothing to stop.
	if p.command.Process.Signal(syscall.SIGSTOP) == nil {
		awaitStopped(p.command.Process)
		p.signalForked(syscall.SIGSTOP)
		p.awaitForked("TZX")
	}
}

func (p *process) resume() {
	p.signalForked(syscall.SIGCONT)
	_ = p.command.Process.Signal(syscall.SIGCONT)
}

// kill ends the child and what it has forked. It returns when the child has been reaped, so that its port and files are
// free.
func (p *process) kill() {
	if !isClosed(p.exited) && len(forkedBy(p.command.Process.Pid)) > 0 {
		p.pause() // what it has forked keeps its numbers, for a stopped process reaps none
		p.signalForked(syscall.SIGKILL)
		p.awaitForked("ZX")
	}
	_ = p.command.Process.Kill()
	<-p.exited
	_ = p.lifeline.Close()
}

// quit asks the child to end at once by itself, and returns when it has been reaped. A child that does not end is
// killed.
func (p *process) quit(patience time.Duration) {
	p.resume()
	_ = p.command.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.exited:
	case <-time.After(patience):
	}
	p.kill()
}

// awaitForked waits until what the child has forked is in one of the states of proc(5), or gone.
func (p *process) awaitForked(states string) {
	for _, pid := range forkedBy(p.command.Process.Pid) {
		awaitState(pid, states)
	}
}

func (p *process) signalForked(signal syscall.Signal) {
	for _, pid := range forkedBy(p.command.Process.Pid) {
		_ = syscall.Kill(pid, signal)
	}
}
