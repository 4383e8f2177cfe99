//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/cmd/farsync/internal/guard"
	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/locktest"
	"github.com/farsync/farsync/internal/suite"
)

// soon is when a test is taken to hang, also on a machine that does much else.
const soon = 2 * time.Minute

// The variable of the race detector, and what its processes find in it.
const race, raceOptions = "GORACE", "atexit_sleep_ms=0"

// The test's own executable is the command, unless make test has built it, and each program that the command runs. The first argument says
// which.
func TestMain(m *testing.M) {
	embedtest.Child()
	// The race detector has each process that ends wait for a second otherwise, the supervisor and then the guard.
	if err := os.Setenv(race, raceOptions); err != nil {
		panic(err)
	}
	locktest.AtOnce(8) // most of them wait for a TTL
	testscript.Main(cleaned{m}, map[string]func(){
		"farsync":        main,
		guard.Name:       main,
		guard.KeeperName: main,
		"catcher":        catcher,
		"renewed":        renewed,
		"forger":         forger,
		"outliver":       outliver,
	})
}

// cleaned removes what was built for the tests.
type cleaned struct{ *testing.M }

func (m cleaned) Run() int {
	suite.Hear()
	defer func() { _ = os.RemoveAll(programs()) }()
	if err := replaceCommand(os.Getenv(builtVariable)); err != nil {
		panic(err)
	}
	return m.M.Run()
}

// The variable that names a farsync that make test has built. Commands that the tests start do not see the variable.
const builtVariable = "FARSYNC_BUILT"

// replaceCommand has the tests start the built program as farsync, and not this executable, which has the tests' servers in it as well. With the
// same race detector the built program takes half as much of the processor to start, and the tests start farsync some 900 times.
func replaceCommand(built string) error {
	if built == "" {
		return nil
	}
	name, err := exec.LookPath("farsync")
	if err != nil {
		return err
	}
	return errors.Join(os.Unsetenv(builtVariable), os.Remove(name), os.Link(built, name))
}

// programs returns a folder for what is built for the tests.
var programs = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "farsync-programs") // removed by TestMain
	if err != nil {
		panic(err)
	}
	return dir
})

// build builds a program without the race detector, and returns its path.
func build(name, from string) (string, error) {
	path := filepath.Join(programs(), name)
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, from).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}

// installed returns the path of the command as users install it, for tests that start it hundreds of times: this executable, which is the
// command elsewhere, takes four times as much of the processor to start. In make long it is this executable there, too, and watched by the
// race detector.
func installed(t testing.TB) string {
	t.Helper()
	if !testing.Short() {
		return "farsync"
	}
	path, err := builtCommand()
	require.NoError(t, err)
	return path
}

var builtCommand = sync.OnceValues(func() (string, error) { return build("farsync", ".") })

// start starts the command with a store, and returns it with what it has said when done is closed.
func start(t testing.TB, store string, arguments ...string) *process {
	t.Helper()
	return startAs(t, store, "farsync", arguments...)
}

// startAs is start by another program, which becomes the command.
func startAs(t testing.TB, store, program string, arguments ...string) *process {
	t.Helper()
	p := prepare(store, program, arguments...)
	p.begin(t)
	return p
}

// prepare is startAs for a command that begin starts.
func prepare(store, program string, arguments ...string) *process {
	p := &process{Cmd: exec.Command(program, arguments...), done: make(chan struct{})}
	p.Env = append(os.Environ(), "FARSYNC_STORE="+store)
	p.Stdout, p.Stderr = &p.out, &p.err
	return p
}

// begin starts what was prepared, and ends it with the test.
func (p *process) begin(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Start())
	go func() { // until the command has ended, which the end of the test sees to
		defer close(p.done)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%q said %q and %q", p.Args, p.out.String(), p.err.String())
		}
	})
}

// A process is a command that was started.
type process struct {
	*exec.Cmd
	out, err buffer
	done     chan struct{} // closed when it has ended, and all that have its output
}

// code waits for the end and returns the exit code, as a shell shows it: 128 and the signal that the command has died of.
func (p *process) code(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(soon):
		require.Fail(t, "the command does not end", "%q", p.Args)
	}
	if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return codeSignal + int(status.Signal())
	}
	return p.ProcessState.ExitCode()
}

// ended reports whether the command has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// A buffer is written and read at the same time.
type buffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// until waits for a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, soon, 5*time.Millisecond, what)
}

// file returns the URL of a store in a file of its own, with a TTL that a busy machine keeps.
func file(t testing.TB) string { return "sqlite:" + filepath.Join(memory(t), "locks.db") + "?ttl=60s" }

// memory returns a folder that waits for no disk, where there is one: these tests are not about disks, which may be busy.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "farsync-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
