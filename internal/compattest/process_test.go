package compattest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/embedtest"
	"github.com/farsync/farsync/internal/earlier"
)

// before is the last commit in which each backend was a Store of its own. What it writes is what users have.
const before = "cd689f20759eb96245645590154d1f76d3cf4f41"

// soon is for what has to happen at all. A waiter that has missed its wake-up looks again by itself, later than that; so make test,
// which has more patience, would not notice.
var soon = 30 * time.Second

// TestMain makes this test binary the player of the new farsync, too.
func TestMain(m *testing.M) {
	if settings, ok := os.LookupEnv(Variable); ok {
		if err := Play(settings, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	embedtest.Main(m)
}

// oldPlayer builds the player of the farsync of before, and returns its executable.
func oldPlayer(t *testing.T) string {
	return earlier.Program(t, before, "./internal/compattest/old", map[string]string{
		"internal/compattest/player.go":   "player.go",
		"internal/compattest/old/main.go": "testdata/main.go",
	})
}

// newPlayer returns the executable of this farsync's player.
func newPlayer(t *testing.T) string {
	executable, err := os.Executable()
	require.NoError(t, err)
	return executable
}

// A process is a player that was started.
type process struct {
	name    string
	command *exec.Cmd
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	over    chan struct{} // closed when the process has ended
	ended   error         // of the process, once over is closed

	mu    sync.Mutex
	last  int // the ID of the last move
	under map[int]chan Answer
}

// start starts a player, which t ends in good order.
func start(t testing.TB, executable string, s Settings) *process {
	text, err := json.Marshal(s)
	require.NoError(t, err)
	p := &process{name: s.Holder, command: exec.Command(executable), over: make(chan struct{}), under: map[int]chan Answer{}}
	p.command.Env = append(os.Environ(), Variable+"="+string(text))
	p.command.Stderr = &p.stderr
	p.stdin, err = p.command.StdinPipe()
	require.NoError(t, err)
	answers, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	go func() { // joined by finish or kill
		defer close(p.over)
		p.read(answers)
		p.ended = p.command.Wait()
	}()
	t.Cleanup(func() { p.finish(t) })
	return p
}

// read hands out the answers.
func (p *process) read(from io.Reader) {
	for answers := json.NewDecoder(from); ; {
		var a Answer
		if answers.Decode(&a) != nil {
			return
		}
		p.mu.Lock()
		to := p.under[a.ID]
		p.mu.Unlock()
		to <- a
	}
}

// finish has the player close its Store.
func (p *process) finish(t testing.TB) {
	select {
	case <-p.over: // killed
		return
	default:
	}
	_ = p.stdin.Close()
	select {
	case <-p.over:
		if p.ended != nil {
			t.Errorf("%s: %v: %s", p.name, p.ended, &p.stderr)
		}
	case <-time.After(soon):
		t.Errorf("%s has not ended: %v", p.name, p.kill())
	}
}

// kill ends the process without a word to the service.
func (p *process) kill() error {
	err := p.command.Process.Kill()
	<-p.over
	return err
}

// in returns the process for a test to play with.
func (p *process) in(t testing.TB) contestant { return contestant{t, p} }

// A contestant is a process in the hands of a test.
type contestant struct {
	testing.TB
	*process
}

// begin begins a move.
func (p contestant) begin(m Move) *turn {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	m.ID = p.last
	// There is room for all that an observer says, for a process that cannot write stands still.
	to := &turn{p, m, make(chan Answer, 100), 0}
	p.under[m.ID] = to.answers
	if err := json.NewEncoder(p.stdin).Encode(m); err != nil {
		p.Errorf("%s: %v", p.name, err)
	}
	return to
}

// do makes a move, which must succeed.
func (p contestant) do(m Move) Answer {
	p.Helper()
	return p.begin(m).done()
}

// get gets a lease, which must succeed.
func (p contestant) get(m Move) *turn {
	p.Helper()
	return p.begin(m).got()
}

// sees polls until the process sees so many participants, and returns them. The size is that of a semaphore, or 0.
func (p contestant) sees(path string, size int64, n int) []string {
	p.Helper()
	for begun := time.Now(); ; {
		queue := p.do(Move{Do: "queue", Path: path, Size: size}).Queue
		if len(queue) == n {
			return queue
		}
		require.Less(p, time.Since(begun), soon, "%s sees\n%s\ninstead of %d", p.name, strings.Join(queue, "\n"), n)
	}
}

// A turn is a move that was begun, and the lease that it gets.
type turn struct {
	contestant
	Move
	answers chan Answer
	token   int64
}

var errSilent = errors.New("no answer")

// next waits for the next answer.
func (to *turn) next() (a Answer, err error) {
	select {
	case a = <-to.answers:
		to.token = a.Token
		return a, nil
	case <-to.over:
		err = fmt.Errorf("it has ended: %w: %s", to.ended, &to.stderr)
	case <-time.After(soon):
		err = errSilent
	}
	return a, fmt.Errorf("%s, asked to %s %s: %w", to.name, to.Do, to.Path, err)
}

// err waits for the next answer, and returns its error.
func (to *turn) err() error {
	a, err := to.next()
	if err == nil && a.Err != "" {
		err = fmt.Errorf("%s, asked to %s %s: %s", to.name, to.Do, to.Path, a.Err)
	}
	return err
}

// done waits for the next answer, which must have no error.
func (to *turn) done() Answer {
	to.Helper()
	a, err := to.next()
	require.NoError(to, err)
	require.Empty(to, a.Err, "%s, asked to %s %s", to.name, to.Do, to.Path)
	return a
}

// got waits for the lease.
func (to *turn) got() *turn {
	to.Helper()
	to.done()
	return to
}

// fails waits for the next answer, which must have that error.
func (to *turn) fails(is string) {
	to.Helper()
	a, err := to.next()
	require.NoError(to, err)
	require.Equal(to, is, a.Is, "%s, asked to %s %s, says %q", to.name, to.Do, to.Path, a.Err)
}

// waits makes sure that there is no answer yet.
func (to *turn) waits() {
	to.Helper()
	select {
	case a := <-to.answers:
		require.FailNow(to, "it has not waited", "%s, asked to %s %s: %+v", to.name, to.Do, to.Path, a)
	default:
	}
}

// giveUp ends a move that waits.
func (to *turn) giveUp() {
	to.Helper()
	to.do(Move{Do: "give up", Of: to.ID})
	to.fails("canceled")
}

// also begins a move about the lease.
func (to *turn) also(do string) *turn {
	to.Helper()
	return to.begin(Move{Do: do, Path: to.Path, Of: to.ID})
}

// release releases the lease.
func (to *turn) release() {
	to.Helper()
	to.also("release").done()
}
