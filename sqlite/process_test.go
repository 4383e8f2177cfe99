//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// The test binary is also the other processes: with a role in its environment it plays that, and says on standard output
// what happens.
const (
	roleVariable   = "FARSYNC_SQLITE_ROLE"
	fileVariable   = "FARSYNC_SQLITE_FILE"
	ttlVariable    = "FARSYNC_SQLITE_TTL"
	lingerVariable = "FARSYNC_SQLITE_LINGER"
)

const path = "/locks/process"

func play(role string) {
	if err := perform(role, os.Getenv(fileVariable)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

func perform(role, file string) error {
	t, _ := time.ParseDuration(os.Getenv(ttlVariable))
	options := ttl(t)
	options.Linger = os.Getenv(lingerVariable) != ""
	ctx := context.Background()
	store, err := Open(ctx, file, options)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	fmt.Println("open")
	mu := farsync.NewMutex(store, path)
	switch role {
	case "hold": // until it is killed, or has lost it
		lease, err := mu.Lock(ctx)
		if err != nil {
			return err
		}
		fmt.Println("locked", lease.Token())
		<-lease.Done()
		fmt.Println("lost")
	case "work": // until its standard input ends
		stop := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(stop) }()
		var last farsync.Token
		others := 0
		for n := 0; ; n++ {
			select {
			case <-stop:
				fmt.Println("turns", n)
				fmt.Println("others", others)
				return nil
			default:
			}
			lease, err := mu.Lock(ctx)
			if err != nil {
				return err
			}
			if lease.Token() <= last {
				return fmt.Errorf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
			other, err := inside(file + ".inside")
			if err != nil {
				return err
			}
			if other {
				others++
			}
			if err := lease.Release(); err != nil {
				return err
			}
		}
	case "wait": // for a lock that another process holds
		go func() { _, _ = mu.Lock(ctx) }() // until Close
		<-time.After(500 * time.Millisecond)
		var before, after syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		<-time.After(3 * time.Second)
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		used := func(r syscall.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
		fmt.Println("used", (used(after)-used(before))/1000)
	}
	return nil
}

// inside fails if another process is inside, and reports whether another was the last there. The kernel forgets a process
// that was killed inside.
func inside(file string) (other bool, err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return false, fmt.Errorf("another holder is inside: %w", err)
	}
	was := make([]byte, 20)
	n, _ := f.ReadAt(was, 0)
	is := fmt.Sprintf("%020d", os.Getpid())
	_, err = f.WriteAt([]byte(is), 0)
	return string(was[:n]) != is, err
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
	t.Cleanup(func() { _ = p.Process.Kill(); <-done })
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
	require.NoError(p.t, p.Process.Kill())
	p.ends()
}

// ends waits until the process has ended.
func (p *process) ends() {
	for line := range p.lines {
		require.NotContains(p.t, line, "error")
	}
}

// TestKilledProcessIsSucceededAtOnce: its sockets refuse, so nobody waits for its TTL.
func TestKilledProcessIsSucceededAtOnce(t *testing.T) {
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	for range 5 {
		holder := start(t, "hold", file, ttlVariable+"=1h")
		holder.says("locked")
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		got := make(chan *farsync.Lease)
		go func() {
			lease, err := mu.Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		_, err = farsync.NewMutex(newStore(t, file, nil), path).TryLock(t.Context())
		require.ErrorIs(t, err, farsync.ErrLocked)
		killed := time.Now()
		holder.kill()
		lease := <-got
		t.Log("taken over after", time.Since(killed))
		require.Less(t, time.Since(killed), 10*probeEvery)
		require.NoError(t, lease.Release())
	}
}

// TestKilledProcessIsSeenByATry: a program that only tries has no time to wait.
func TestKilledProcessIsSeenByATry(t *testing.T) {
	file := newFile(t)
	holder := start(t, "hold", file, ttlVariable+"=1h")
	holder.says("locked")
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, farsync.ErrLocked)
	holder.kill()
	lease, err := mu.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Release())
}

// TestLingeringProcessIsWaitedFor: its children may still work.
func TestLingeringProcessIsWaitedFor(t *testing.T) {
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	holder := start(t, "hold", file, ttlVariable+"=2s", lingerVariable+"=yes")
	holder.says("locked")
	killed := time.Now()
	holder.kill()
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(killed), time.Second, "it was renewed every half second")
	require.NoError(t, lease.Release())
}

// TestStoppedProcessIsWaitedFor: it is not dead, and finds out that it has lost when it goes on.
func TestStoppedProcessIsWaitedFor(t *testing.T) {
	file := newFile(t)
	mu := farsync.NewMutex(newStore(t, file, nil), path)
	holder := start(t, "hold", file, ttlVariable+"=2s")
	holder.says("locked")
	stopped := time.Now()
	require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
	lease, err := mu.Lock(within(t, soon))
	require.NoError(t, err)
	require.Greater(t, time.Since(stopped), time.Second)
	require.Less(t, time.Since(stopped), 4*time.Second)
	require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
	holder.says("lost")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Release())
}

// TestProcessesTakeTurns has processes lock and release, and kills some of them wherever they are.
func TestProcessesTakeTurns(t *testing.T) {
	for _, c := range []struct{ workers, kills int }{{2, 0}, {8, 0}, {2, 10}} {
		t.Run(fmt.Sprintf("%d processes, %d killed", c.workers, c.kills), func(t *testing.T) {
			file := newFile(t)
			var workers []*process
			for range c.workers {
				workers = append(workers, start(t, "work", file))
			}
			for _, w := range workers {
				w.says("open")
			}
			began := time.Now()
			for i := range c.kills {
				<-time.After(50*time.Millisecond + time.Duration(i)*time.Millisecond)
				workers[i%2].kill()
				workers[i%2] = start(t, "work", file)
				workers[i%2].says("open")
			}
			<-time.After(2 * time.Second)
			turns, others := 0, 0
			for _, w := range workers {
				require.NoError(t, w.stdin.Close())
			}
			for _, w := range workers {
				n, err := strconv.Atoi(w.says("turns"))
				require.NoError(t, err)
				require.Positive(t, n)
				turns += n
				n, err = strconv.Atoi(w.says("others"))
				require.NoError(t, err)
				others += n
			}
			seconds := time.Since(began).Seconds()
			t.Logf("%.0f turns a second, %.0f of them after another process", float64(turns)/seconds, float64(others)/seconds)
			if c.kills > 0 {
				return
			}
			for _, w := range workers {
				w.ends()
			}
			left, err := os.ReadDir(file + "-farsync")
			require.NoError(t, err)
			require.Empty(t, left, "sockets of sessions that are over")
		})
	}
}

// TestWaitingIsCheap: a process that waits is woken, and does little else.
func TestWaitingIsCheap(t *testing.T) {
	file := newFile(t)
	lease, err := farsync.NewMutex(newStore(t, file, nil), path).Lock(t.Context())
	require.NoError(t, err)
	used, err := strconv.Atoi(start(t, "wait", file).says("used"))
	require.NoError(t, err)
	t.Log("in 3 s", used, "µs of processor time")
	require.Less(t, used, 90_000, "3 %")
	require.NoError(t, lease.Release())
}
