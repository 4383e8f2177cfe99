//go:build unix

package embedtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// probeInterval is how often a server that is starting is asked whether it is ready.
const probeInterval = 10 * time.Millisecond

const (
	// probeTimeout bounds one such question, at first.
	probeTimeout = time.Second
	// probeMost bounds a question after others had no answer in time: the server may run, and be slow.
	probeMost = 10 * time.Second
)

var errClosed = errors.New("the ensemble is closed")

// A server is one server over all its runs. Its methods may be called from any goroutine.
type server struct {
	name     string
	endpoint string
	ports    []port
	command  func() (*exec.Cmd, error)
	probe    func(context.Context) error // nil once the server is of use to a client
	log      string                      // file
	hint     func(log string) string     // what else to say when a run never became ready; may be nil
	as       *syscall.Credential         // the user that it runs as; nil: ours

	mu      sync.Mutex // guards what follows
	process *process   // nil before the first run and after a Kill
	closed  bool
}

// Endpoint returns the address at which clients reach the server: for etcd an http URL, for all others host:port. It
// never changes.
func (s *server) Endpoint() string { return s.endpoint }

// Pause stops the server (SIGSTOP) and returns when it has stopped: its connections stay open and are accepted, and
// nothing is answered until Resume. It does nothing when the server is not running.
func (s *server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.pause()
	}
}

// Resume lets a paused server go on. It does nothing to a server that is not paused.
func (s *server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.resume()
	}
}

// FillDisk has each write of the server to a file fail from now on, as if every disk were full. Restart ends that. The
// server is told "file too large" and not "no space left on device": a limit of the process stands in for the disk, so
// that no right is needed. It needs Linux and its program prlimit. Most servers end by themselves at the next write; it
// does nothing when the server is not running.
func (s *server) FillDisk() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	s.process.pause() // it forks no more meanwhile
	defer s.process.resume()
	pid := s.process.command.Process.Pid
	for _, pid := range append(forkedBy(pid), pid) {
		if err := writeNothing(pid, s.as); err != nil {
			return fmt.Errorf("embedtest: fill the disk of %s: %w", s.name, err)
		}
	}
	return nil
}

// Kill ends the server (SIGKILL), paused or not, and returns when it is gone. Its data and its address stay, and
// connections are refused until Restart. It does nothing when the server is not running.
func (s *server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart kills the server if it runs, starts it again with its data and at its address, and waits until it is ready
// or ctx is done. A member of an ensemble is ready only when the ensemble has a leader that it can reach; to bring back
// several, restart them at the same time. After an error the server may be running or not; Restart may be called again.
func (s *server) Restart(ctx context.Context) error {
	p, err := s.start()
	if err != nil {
		return fmt.Errorf("embedtest: start %s: %w", s.name, err)
	}
	return s.awaitReady(ctx, p)
}

// Log returns the path of the file with everything that the server has printed, over all its runs.
func (s *server) Log() string { return s.log }

func (s *server) start() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.kill()
	command, err := s.command()
	if err != nil {
		return nil, err
	}
	s.process, err = startProcess(command, s.log, s.as)
	return s.process, err
}

// kill needs the mutex.
func (s *server) kill() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// quit has the server end by itself, if it runs. Nothing follows it but a close.
func (s *server) quit(patience time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && !isClosed(s.process.exited) {
		s.process.quit(patience)
		s.process = nil
	}
}

// close kills the server for good. Its error says that the server had ended by itself before.
func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.process != nil && isClosed(s.process.exited) {
		err = fmt.Errorf("embedtest: %s ended by itself: %w%s", s.name, orExited(s.process.err), s.tail())
	}
	s.kill()
	for _, p := range s.ports {
		p.release()
	}
	return err
}

func (s *server) awaitReady(ctx context.Context, p *process) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for limit := probeTimeout; ; {
		probing, cancel := context.WithTimeout(ctx, limit)
		err := s.probe(probing)
		if probing.Err() != nil {
			limit = min(2*limit, probeMost)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return s.notReady(orExited(p.err))
		case <-ctx.Done():
			return s.notReady(fmt.Errorf("%w (%w)", context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

func (s *server) notReady(cause error) error {
	hint := ""
	if s.hint != nil {
		if log, err := os.ReadFile(s.log); err == nil {
			hint = s.hint(string(log))
		}
	}
	return fmt.Errorf("embedtest: %s is not ready: %w%s%s", s.name, cause, hint, s.tail())
}

// tail is the end of the log as the end of an error message.
func (s *server) tail() string {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return fmt.Sprintf(" (no log: %v)", err)
	}
	const most = 4 << 10
	text := string(log)
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return fmt.Sprintf("\n--- log of %s\n%s\n---", filepath.Join(filepath.Base(filepath.Dir(s.log)), filepath.Base(s.log)), strings.TrimSpace(text))
}

func orExited(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
