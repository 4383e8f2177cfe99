//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// The test binary is also the other processes: with a role in its environment it plays that, and says on standard output
// what happens. It ends with its standard input, so that it does not outlive the test.
const (
	roleVariable   = "FARSYNC_SQLITE_ROLE"
	fileVariable   = "FARSYNC_SQLITE_FILE"
	ttlVariable    = "FARSYNC_SQLITE_TTL"
	lingerVariable = "FARSYNC_SQLITE_LINGER"
	syncVariable   = "FARSYNC_SQLITE_SYNC"
)

const path = "/locks/process"

func play(role string) {
	if err := perform(role, os.Getenv(fileVariable)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func perform(role, file string) error {
	if role == "neighbour" {
		return neighbour(file)
	}
	t, _ := time.ParseDuration(os.Getenv(ttlVariable))
	options := ttl(t)
	options.Linger = os.Getenv(lingerVariable) != ""
	options.Sync = os.Getenv(syncVariable) != ""
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	store, err := Open(ctx, file, options)
	if ctx.Err() != nil && role == "work" {
		fmt.Println("turns 0 0 0") // it has begun as the others were told to end
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	fmt.Println("open")
	return roles[role](ctx, farsync.NewMutex(store, path), file)
}

var roles = map[string]func(ctx context.Context, mu *farsync.Mutex, file string) error{
	"hold": func(ctx context.Context, mu *farsync.Mutex, _ string) error { // until it is killed, or has lost it
		lease, err := mu.Lock(ctx)
		if err != nil {
			return err
		}
		fmt.Println("locked", lease.Token())
		select {
		case <-lease.Done():
			fmt.Println("lost")
		case <-ctx.Done():
		}
		return nil
	},
	"job": func(ctx context.Context, mu *farsync.Mutex, _ string) error { // and is told to shut down within its time
		_, err := mu.TryDo(ctx, time.Hour, func(context.Context, *farsync.Lease) error { fmt.Println("works"); return nil })
		return endsWithoutClose(err)
	},
	"keep": func(ctx context.Context, mu *farsync.Mutex, _ string) error {
		lease, err := mu.Lock(ctx)
		if err != nil {
			return err
		}
		if err := lease.Outlast(ctx); err != nil {
			return err
		}
		fmt.Println("works")
		<-ctx.Done()
		return endsWithoutClose(nil)
	},
	"leave": func(ctx context.Context, mu *farsync.Mutex, _ string) error {
		if _, err := mu.Lock(ctx); err != nil {
			return err
		}
		fmt.Println("works")
		<-ctx.Done()
		return endsWithoutClose(nil)
	},
	"wait": func(ctx context.Context, mu *farsync.Mutex, _ string) error { // for a lock that another process holds
		_, _ = mu.Lock(ctx)
		return nil
	},
	"idle": func(ctx context.Context, _ *farsync.Mutex, _ string) error { <-ctx.Done(); return nil },
	"work": work,
}

// endsWithoutClose ends the process, if there is no error.
func endsWithoutClose(err error) error {
	if err == nil {
		os.Exit(0)
	}
	return err
}

// A process is one that plays a role.
type process struct {
	*exec.Cmd
	t     testing.TB
	stdin io.WriteCloser
	lines chan string // closed when it has ended
}

// start starts a process. It is killed with the test.
func start(t testing.TB, role, file string, environment ...string) *process {
	p := prepared(t, role, file, environment...)
	p.begin()
	return p
}

func prepared(t testing.TB, role, file string, environment ...string) *process {
	p := &process{t: t, Cmd: exec.Command(os.Args[0]), lines: make(chan string, 100)}
	p.Env = append(os.Environ(), roleVariable+"="+role, fileVariable+"="+file)
	p.Env = append(p.Env, environment...)
	return p
}

func (p *process) begin() {
	t := p.t
	var err error
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.Stderr = os.Stderr
	require.NoError(t, p.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		for range p.lines { // so that what is left does not keep it
		}
		<-done
	})
}

// says waits for a line that begins so, and returns the rest of it.
func (p *process) says(what string) string {
	p.t.Helper()
	rest := p.saysAny(what, "error")
	require.NotContains(p.t, rest, "error")
	return rest
}

// saysAny waits for a line that begins with one of these, and returns it without the first.
func (p *process) saysAny(what ...string) string {
	p.t.Helper()
	first := what[0]
	timeout := time.NewTimer(soon)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			require.True(p.t, ok, "ended before it said one of %q", what)
			for _, what := range what {
				if strings.HasPrefix(line, what) {
					return strings.TrimSpace(strings.TrimPrefix(line, first))
				}
			}
		case <-timeout.C:
			require.FailNow(p.t, "not said", "%q", what)
		}
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.ends()
}

// signal sends a signal to the process, which must not have ended.
func (p *process) signal(s syscall.Signal) {
	err := p.Process.Signal(s)
	if err != nil {
		p.ends() // it has said why
	}
	require.NoError(p.t, err)
}

// ends waits until the process has ended.
func (p *process) ends() {
	for line := range p.lines {
		require.NotContains(p.t, line, "error")
	}
}

// used is the processor time that the process has taken, as far as it has ended.
func (p *process) used() time.Duration {
	return p.ProcessState.UserTime() + p.ProcessState.SystemTime()
}
