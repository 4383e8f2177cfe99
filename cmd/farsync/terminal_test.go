//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// A console is an interactive bash on a terminal.
type console struct {
	t     *testing.T
	shell *exec.Cmd
	tty   *os.File
	out   buffer
	read  int // how much of out was expected before
}

// newConsole starts a shell that uses a store of its own, and ends it with the test.
func newConsole(t *testing.T) *console {
	t.Helper()
	t.Parallel()
	shell := exec.Command("bash", "--norc", "--noediting", "-i")
	shell.Env = append(os.Environ(), "FARSYNC_STORE="+file(t), "PS1=ready ", "TERM=dumb", "HISTFILE=")
	tty, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	c := &console{t: t, shell: shell, tty: tty}
	done := make(chan struct{})
	go func() { // ends with the shell
		defer close(done)
		for b := make([]byte, 4096); ; {
			n, err := tty.Read(b)
			_, _ = c.out.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Signal(syscall.SIGHUP) // which it passes on to its jobs
		_ = shell.Wait()
		_ = tty.Close()
		<-done
		if t.Failed() {
			t.Logf("on the terminal:\n%s", c.out.String())
		}
	})
	c.expect("ready ")
	return c
}

// keys types.
func (c *console) keys(text string) {
	c.t.Helper()
	_, err := c.tty.WriteString(text)
	require.NoError(c.t, err)
}

// expect waits until the text has been shown, after what was expected before.
func (c *console) expect(text string) {
	c.t.Helper()
	until(c.t, "the terminal shows "+text, func() bool {
		at := strings.Index(c.out.String()[c.read:], text)
		if at < 0 {
			return false
		}
		c.read += at + len(text)
		return true
	})
}

// code types a command that shows the exit code of the last, and expects it.
func (c *console) code(code string) {
	c.t.Helper()
	c.keys("echo code=$?\n")
	c.expect("code=" + code + "\r\n")
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

func TestCommandReadsTheTerminal(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run /x -- sh -c 'echo go; read line; echo got $line; exit 7'\n")
	c.expect("go\r\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("7")
	// It takes single keys, as an editor does, and the terminal is as it was afterwards.
	c.keys("farsync run /x -- bash -c 'echo go; read -rsn1 key; echo got=$key'\n")
	c.expect("go\r\n")
	c.keys("k")
	c.expect("got=k\r\n")
	c.code("0")
}

func TestCtrlCEndsCommand(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run /x -- sh -c 'echo go; sleep 60'\n")
	c.expect("go\r\n")
	c.keys(ctrlC)
	c.expect("ready ")
	c.code("130")
	// One that ignores it goes on, and so does farsync.
	c.keys("farsync run /x -- bash -c 'trap \"echo heard\" INT; echo go; read a; read b; echo over'\n")
	c.expect("go\r\n")
	c.keys(ctrlC)
	c.expect("heard\r\n")
	c.keys("a\nb\n")
	c.expect("over\r\n")
	c.code("0")
}

func TestCtrlZStopsCommandAndKeepsTheLock(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run --ttl 6s /x -- cat\n")
	c.keys("one\n")
	c.expect("one\r\none\r\n")
	c.keys(ctrlZ)
	c.expect("Stopped")
	c.expect("ready ")
	// For longer than its TTL, the lock is kept.
	c.keys("farsync run -w 7 /x -- true\n")
	c.expect("behind ")
	c.expect("ready ")
	c.code("75")
	c.keys("jobs\n")
	c.expect("farsync run --ttl 6s /x -- cat")
	c.keys("fg\n")
	c.expect("farsync run --ttl 6s /x -- cat\r\n")
	c.keys("two\n")
	c.expect("two\r\ntwo\r\n")
	c.keys(ctrlZ)
	c.expect("Stopped")
	c.expect("ready ") // and not the line of the job that stopped, which looks like what fg says
	c.keys("fg\n")
	c.expect("farsync run --ttl 6s /x -- cat\r\n")
	c.keys("three\n")
	c.expect("three\r\nthree\r\n")
	c.keys(ctrlD)
	c.expect("ready ")
	c.code("0")
}

func TestCommandInTheBackgroundStopsWhenItReads(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run /x -- sh -c 'echo go; read line; echo got $line' &\n")
	c.expect("go\r\n")
	c.keys("until jobs | grep -q Stopped; do :; done; echo se''en\n")
	c.expect("seen\r\n")
	c.keys("fg\n")
	c.expect("farsync run")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("0")
}

func TestCommandSeesTheSizeOfTheTerminal(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run /x -- bash -c 'trap \"stty size\" WINCH; stty size; read a; read b'\n")
	c.expect("24 80\r\n")
	require.NoError(t, pty.Setsize(c.tty, &pty.Winsize{Rows: 30, Cols: 100}))
	c.keys("a\n") // bash runs the trap when it has read
	c.expect("30 100\r\n")
	c.keys("b\n")
	c.code("0")
}

func TestPipelines(t *testing.T) {
	c := newConsole(t)
	c.keys("echo in | farsync run /x -- tr i o | tr n u\n")
	c.expect("ou\r\n")
	c.code("0")
	// Another part of the pipeline reads the terminal, and Ctrl-C ends all of it.
	c.keys("cat | farsync run /x -- sh -c 'read line; echo got $line; exec sleep 60'\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.keys(ctrlC)
	c.expect("ready ")
	c.code("130")
	// A COMMAND whose input is another reads the terminal by its name.
	c.keys("true | farsync run /x -- sh -c 'echo go; read line </dev/tty; echo got $line'\n")
	c.expect("go\r\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("0")
}

func TestWaitingOnTheTerminal(t *testing.T) {
	c := newConsole(t)
	c.keys("farsync run --label first /x -- sleep 60 &\n")
	c.expect("ready ")
	c.keys("until farsync run -n -E 9 /x -- true 2>/dev/null; test $? = 9; do :; done; farsync run /x -- echo mine\n")
	c.expect("\r\x1b[Kwaiting for /x behind ")
	c.expect(" first, there for ")
	c.expect("2nd of 2")
	c.keys(ctrlZ)
	c.expect("Stopped")
	c.keys("kill %1; wait %1; echo fi''rst is over\n")
	c.expect("first is over\r\n")
	c.keys("fg\n")
	c.expect("echo mine\r\n")
	c.expect("mine\r\n")
	c.keys("farsync run /x -- sleep 60 &\n")
	c.expect("ready ")
	c.keys("until farsync run -n -E 9 /x -- true 2>/dev/null; test $? = 9; do :; done; farsync run /x -- echo mine\n")
	c.expect("waiting for /x")
	c.keys(ctrlC)
	c.code("130")
	c.keys("kill %+; wait\n")
	c.expect("ready ")
}

// A terminal that is closed takes COMMAND along, as a shell does.
func TestTheEndOfTheTerminalEndsCommand(t *testing.T) {
	c := newConsole(t)
	name := t.TempDir() + "/pid"
	c.keys("farsync run /x -- sh -c 'echo $$ >" + name + "; echo go; exec sleep 60'\n")
	c.expect("go\r\n")
	pid := number(t, name)
	require.NoError(t, c.shell.Process.Kill())
	until(t, "COMMAND has ended", func() bool { return dead(pid) })
}

// number reads one from a file.
func number(t *testing.T, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, c := range strings.TrimSpace(string(text)) {
		n = 10*n + int(c-'0')
	}
	return n
}
