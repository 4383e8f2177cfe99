//go:build unix

package main

import (
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite"
)

// A console is an interactive bash on a terminal. What it shows is read in order: each expectation looks behind the one
// before. The echo of keys may come in the middle of what a program is writing, so either nothing writes while keys are
// typed, or no end of a line is expected.
type console struct {
	t     *testing.T
	shell *exec.Cmd
	tty   *os.File
	file  string // of the store
	out   buffer
	read  int // how much of out was expected before
}

const prompt = "ready> "

// newConsole starts a shell that uses a store of its own, and ends it with the test.
func newConsole(t *testing.T) *console {
	t.Helper()
	return newConsoleOf(t, "bash", "--norc", "--noediting", "-i")
}

// newConsoleOf is newConsole for another program than an interactive shell.
func newConsoleOf(t *testing.T, program string, arguments ...string) *console {
	t.Helper()
	t.Parallel()
	store := file(t)
	shell := exec.Command(program, arguments...)
	shell.Env = append(os.Environ(), "FARSYNC_STORE="+store, "PS1="+prompt, "TERM=dumb", "HISTFILE=")
	tty, err := pty.StartWithSize(shell, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	name, _, _ := strings.Cut(strings.TrimPrefix(store, "sqlite:"), "?")
	c := &console{t: t, shell: shell, tty: tty, file: name}
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
	return c
}

// line types a command when the shell has asked for one, and reads its echo. So nothing that is expected afterwards was shown
// before, and no job has the terminal while it is typed.
func (c *console) line(text string) {
	c.t.Helper()
	c.expect(prompt)
	c.keys(text + "\n")
	c.expect("\r\n")
}

// keys types. What the program in the foreground does not read, the next one does.
func (c *console) keys(text string) {
	c.t.Helper()
	_, err := c.tty.WriteString(text)
	require.NoError(c.t, err)
}

// expect waits until the text has been shown, after what was expected before.
func (c *console) expect(text string) {
	c.t.Helper()
	until(c.t, "the terminal shows "+text, func() bool {
		at := c.find(text)
		if at < 0 {
			return false
		}
		c.read += at + len(text)
		return true
	})
}

// shows waits as expect does, and reads nothing: it is for what a job in the background shows, before or after the prompt.
func (c *console) shows(text string) {
	c.t.Helper()
	until(c.t, "the terminal shows "+text, func() bool { return c.find(text) >= 0 })
}

func (c *console) find(text string) int { return strings.Index(c.out.String()[c.read:], text) }

// code types a command that shows the exit code of the last, and expects it.
func (c *console) code(code string) {
	c.t.Helper()
	c.line("echo code=$?")
	c.expect("code=" + code + "\r\n")
}

// renewed waits until the session that holds locks has been renewed so many times.
func (c *console) renewed(times int) {
	c.t.Helper()
	db, err := sql.Open("sqlite", c.file+"?_pragma=busy_timeout(10000)")
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, db.Close()) }()
	last, seen := int64(0), -1
	until(c.t, "the lock is renewed", func() bool {
		deadline := int64(0)
		row := db.QueryRowContext(c.t.Context(), "SELECT deadline FROM farsync_sessions WHERE id IN (SELECT session FROM farsync_entries)")
		require.NoError(c.t, row.Scan(&deadline))
		if deadline != last {
			last = deadline
			seen++
		}
		return seen >= times
	})
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

func TestCommandReadsTheTerminal(t *testing.T) {
	c := newConsole(t)
	c.line("farsync run /x -- sh -c 'echo go; read line; echo got $line; exit 7'")
	c.expect("go\r\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("7")
	// It takes single keys, as an editor does, and the terminal is as it was afterwards.
	c.line("farsync run /x -- bash -c 'echo go; read -rsn1 key; echo got=$key'")
	c.expect("go\r\n")
	c.keys("k")
	c.expect("got=k\r\n")
	c.code("0")
}

func TestCtrlCEndsCommand(t *testing.T) {
	c := newConsole(t)
	// Not by a shell: one that is about to start a program may lose it.
	c.line("farsync run /x -- cat")
	c.keys("text\n")
	c.expect("text\r\ntext\r\n")
	c.keys(ctrlC)
	c.code("130")
	// One that ignores it goes on, and so does farsync. It has read, so it has the terminal, and the signal comes before the
	// line behind it. The trap is run when that line was read, or before.
	c.line(`farsync run /x -- bash -c 'trap "echo heard" INT; until [ "$a" = over ]; do read a; echo got $a; done'`)
	c.keys("text\n")
	c.expect("got text\r\n")
	c.keys(ctrlC + "more\n")
	c.expect("heard")
	c.keys("over\n")
	c.expect("got over\r\n")
	c.code("0")
}

// TestCtrlCEndsTheScript that runs farsync, as it would end one that runs COMMAND by itself.
func TestCtrlCEndsTheScript(t *testing.T) {
	c := newConsole(t)
	// COMMAND has the terminal, so the script hears of it by the guard alone.
	c.line("bash -c 'for n in 1 2 3; do farsync run /x -- cat; echo again; done'")
	c.keys("text\n")
	c.expect("text\r\ntext\r\n")
	c.keys(ctrlC)
	c.code("130")
	// The pipeline has the terminal.
	c.line("bash -c 'for n in 1 2 3; do farsync run /x -- sh -c \"echo go; exec sleep 600\" | cat; echo again; done'")
	c.expect("go\r\n")
	c.keys(ctrlC)
	c.code("130")
	// farsync waits for the lock.
	c.line("farsync run --label first /x -- sleep 600 &")
	c.line("until farsync who /x >/dev/null; do sleep 0.02; done; bash -c 'for n in 1 2 3; do farsync run /x -- true; echo again; done'")
	c.expect("waiting for /x behind ")
	c.keys(ctrlC)
	c.code("130")
	c.line("kill %1; wait %1")
	// A COMMAND that deals with it ends as it likes, and the script goes on.
	c.line(`bash -c 'farsync run /x -- bash -c "trap \"exit 4\" INT; echo go; while :; do read a; done"; echo code=$? again'`)
	c.expect("go\r\n")
	c.keys("a\n" + ctrlC)
	c.expect("code=4 again\r\n")
	c.expect(prompt)
	require.Equal(t, 1, strings.Count(c.out.String(), "again\r\n"))
}

func TestCtrlZStopsCommandAndKeepsTheLock(t *testing.T) {
	c := newConsole(t)
	// A third of it is how often it is renewed, and all but the grace and two margins of the rest how late that may be.
	const command = "farsync run --ttl 20s --grace 1s /x -- sh -c 'echo go; exec cat'"
	c.line(command)
	c.expect("go\r\n")
	c.keys("one\n")
	c.expect("one\r\none\r\n")
	c.keys(ctrlZ)
	c.expect("Stopped")
	if suite.More(t, suite.Command) { // waits for half of the TTL
		c.renewed(2)
	}
	c.line("farsync run -n /x -- true")
	c.expect("locked")
	c.code("75")
	c.line("jobs")
	c.expect(command)
	for _, text := range []string{"two", "three"} {
		c.line("fg")
		c.expect(command + "\r\n")
		c.keys(text + "\n")
		c.expect(text + "\r\n" + text + "\r\n")
		c.keys(ctrlZ)
		c.expect("Stopped")
	}
	c.line("fg")
	c.expect(command + "\r\n")
	c.keys(ctrlD)
	c.code("0")
}

func TestCommandInTheBackgroundStopsWhenItReads(t *testing.T) {
	c := newConsole(t)
	c.line("farsync run /x -- sh -c 'echo go; read line; echo got $line' &")
	c.shows("go\r\n")
	c.line("until jobs | grep -q Stopped; do sleep 0.02; done")
	c.line("fg")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("0")
}

func TestCommandSeesTheSizeOfTheTerminal(t *testing.T) {
	c := newConsole(t)
	c.line("farsync run /x -- bash -c 'trap \"stty size\" WINCH; read a; stty size; read a; read a'")
	c.keys("a\n") // one that has read has the terminal, and gets the signal right away
	c.expect("24 80\r\n")
	require.NoError(t, pty.Setsize(c.tty, &pty.Winsize{Rows: 30, Cols: 100}))
	c.keys("a\n") // bash runs the trap when it has read, or before
	c.expect("30 100")
	c.keys("b\n")
	c.code("0")
}

func TestPipelines(t *testing.T) {
	c := newConsole(t)
	c.line("echo in | farsync run /x -- tr i o | tr n u")
	c.expect("ou\r\n")
	c.code("0")
	// Another part of the pipeline reads the terminal, and Ctrl-C ends all of it.
	c.line("cat | farsync run /x -- bash -c 'trap \"exit 9\" INT; read line; echo got $line; while :; do sleep 0.05; done'")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.keys(ctrlC)
	c.code("9")
	// A COMMAND whose input is another reads the terminal by its name.
	c.line("true | farsync run /x -- sh -c 'echo go; read line </dev/tty; echo got $line'")
	c.expect("go\r\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("0")
}

// TestThePagerReadsTheTerminal though COMMAND, in front of it in the pipeline, reads it or could. Both get what they ask for, one after
// the other, and none stays stopped.
func TestThePagerReadsTheTerminal(t *testing.T) {
	c := newConsole(t)
	const pager = ` | sh -c 'cat; echo page; read key </dev/tty; echo got $key'`
	c.line("farsync run /x -- echo text" + pager)
	c.expect("text\r\npage\r\n")
	c.keys("q\n")
	c.expect("got q\r\n")
	c.code("0")
	// While COMMAND runs, which could read.
	dir := t.TempDir()
	c.line("mkfifo " + dir + "/go; farsync run /x -- cat " + dir + "/go | sh -c 'echo page; read key </dev/tty; echo got $key; echo >" + dir + "/go'")
	c.expect("page\r\n")
	c.keys("q\n")
	c.expect("got q\r\n")
	c.code("0")
	// COMMAND has read first. It has the terminal, and the pager asks for it.
	c.line("farsync run /x -- sh -c 'read word; echo $word; read line <" + dir + "/go'" +
		" | sh -c 'read word; echo page $word; read key </dev/tty; echo got $key; stty -echo </dev/tty; stty echo </dev/tty; echo >" + dir + "/go'")
	c.keys("word\n")
	c.expect("page word\r\n")
	c.keys("q\n")
	c.expect("got q\r\n")
	c.code("0")
	// And COMMAND again.
	c.line("farsync run /x -- sh -c 'read a; echo $a; read line <" + dir + "/go; read b; echo $b'" +
		" | sh -c 'read a; echo page $a; read key </dev/tty; echo got $key; echo >" + dir + "/go; read b; echo page $b'")
	c.keys("one\n")
	c.expect("page one\r\n")
	c.keys("q\n")
	c.expect("got q\r\n")
	c.keys("two\n")
	c.expect("page two\r\n")
	c.code("0")
}

// TestAPipelineInTheBackgroundStopsWhenItsPagerReads, and goes on in the foreground.
func TestAPipelineInTheBackgroundStopsWhenItsPagerReads(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	// The pager reads when COMMAND runs. A process that the shell has just forked ignores what stops it, whatever it is going to be.
	c.line("mkfifo " + dir + "/go; farsync run /x -- sh -c 'echo >" + dir + "/go; exec sleep 600'" +
		" | sh -c 'read line <" + dir + "/go; echo page; read key </dev/tty; echo got $key' &")
	c.shows("page\r\n")
	c.line("until jobs | grep -q Stopped; do sleep 0.02; done")
	c.line("fg")
	c.keys("q\n")
	c.expect("got q\r\n")
	c.keys(ctrlC)
	c.expect(prompt)
}

// TestTheTerminalIsTakenBackFromADeadSupervisor: a script reads it after the supervisor was killed, and COMMAND with it.
func TestTheTerminalIsTakenBackFromADeadSupervisor(t *testing.T) {
	suite.Long(t, suite.Command, "kills the supervisor")
	c := newConsole(t)
	c.line("sh -c 'farsync run /x -- sh -c \"read word; kill -KILL \\$PPID; exec sleep 600\"; echo code=$?; read line; echo got $line'")
	c.keys("word\n") // one that has read has the terminal
	c.expect("code=79\r\n")
	c.keys("text\n")
	c.expect("got text\r\n")
	c.code("0")
}

func TestWaitingOnTheTerminal(t *testing.T) {
	c := newConsole(t)
	const wait = "until farsync who /x >/dev/null; do sleep 0.02; done; farsync run /x -- echo mine"
	c.line("farsync run --label first /x -- sleep 600 &")
	c.line(wait)
	c.expect("\r\x1b[Kwaiting for /x behind ")
	c.expect(" first, there for ")
	c.expect("1st of 1 who wait")
	c.keys(ctrlZ)
	c.expect("Stopped")
	// Its turn comes while it is stopped: it holds, and COMMAND waits for the shell.
	c.line("kill %1; wait %1")
	c.line("fg")
	c.expect("echo mine\r\n")
	c.expect("mine\r\n")
	c.line("farsync run /x -- sleep 600 &")
	c.line(wait)
	c.expect("\r\x1b[Kwaiting for /x behind ")
	c.keys(ctrlC)
	c.code("130")
	c.line("kill $!; wait")
	c.expect(prompt)
}

// TestWatchIsLeft by q, and by Ctrl-C. The terminal is as it was afterwards.
func TestWatchIsLeft(t *testing.T) {
	c := newConsole(t)
	c.line("farsync run --label first /x -- sleep 600 &")
	for key, code := range map[string]string{"q": "0", ctrlC: "0"} {
		c.line("until farsync who /x >/dev/null; do sleep 0.02; done; farsync watch /x")
		c.expect(" first holds")
		c.expect("q or Ctrl-C ends")
		c.keys(key)
		c.expect("\x1b[?1049l")
		c.code(code)
		c.line("stty -a | grep -o -w -e -icanon -e -echo; echo whole")
		c.expect("whole\r\n")
		require.NotContains(t, c.out.String()[strings.LastIndex(c.out.String(), "stty -a"):], "\n-")
	}
	c.line("kill %1; wait %1")
	c.expect(prompt)
}

// A terminal that is closed takes COMMAND along, as a shell does.
func TestTheEndOfTheTerminalEndsCommand(t *testing.T) {
	c := newConsole(t)
	name := t.TempDir() + "/pid"
	c.line("farsync run /x -- sh -c 'echo $$ >" + name + "; echo go; exec sleep 600'")
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

// TestCtrlZStopsNothingThatNobodyContinues: a script that has the terminal to itself is no shell with jobs. Its processes are an orphaned
// group, which the kernel does not stop by Ctrl-Z either.
func TestCtrlZStopsNothingThatNobodyContinues(t *testing.T) {
	c := newConsoleOf(t, "sh", "-c", "farsync run /x -- sh -c 'echo go; exec cat'; echo code=$?")
	t.Cleanup(func() { _ = syscall.Kill(-c.shell.Process.Pid, syscall.SIGKILL) }) // also where it is stopped
	c.expect("go\r\n")
	c.keys("one\n")
	c.expect("one\r\none\r\n")
	c.keys(ctrlZ + "two\n")
	c.expect("two\r\ntwo\r\n")
	c.keys(ctrlD)
	c.expect("code=0\r\n")
}

// TestTheTerminalShowsNoValueThatItWouldActOn. A program gets the value as it is.
func TestTheTerminalShowsNoValueThatItWouldActOn(t *testing.T) {
	c := newConsole(t)
	c.line(`farsync elect --value $'a\x1b[31mb' /l -- sh -c 'farsync leader /l; farsync leader /l | od -An -c'`)
	c.expect(`a\x1b[31mb` + "\r\n")
	c.expect(` a 033   [   3   1   m   b  \n`)
	c.code("0")
}

// TestBreakTakesYesOrANameForTheOneHolder. Where there are two, only a token tells which.
func TestBreakTakesYesOrANameForTheOneHolder(t *testing.T) {
	c := newConsole(t)
	const ask = "End this lease? Type yes, the name of its holder, or its token: "
	hold := func(more string) {
		c.line("farsync run -q --label nightly " + more + " /x -- sleep 600 2>/dev/null &")
		c.line("until farsync who -q /x >/dev/null; do sleep 0.02; done")
	}
	hold("")
	for answer, says := range map[string]string{
		"y": `"y" is neither yes, nor the name of the holder, nor a token: nothing was done`, "": `"" is neither yes`, "nobody": `"nobody" is neither yes`,
	} {
		c.line("farsync break --ask 0 /x")
		c.expect(" nightly holds ")
		c.expect(ask)
		c.keys(answer + "\n")
		c.expect(says)
		c.code("64")
	}
	c.line("farsync break --ask 0 /x")
	c.expect(ask)
	c.keys("yes\n")
	c.code("0")
	c.line("wait; farsync who -q /x; echo free=$?")
	c.expect("free=1\r\n")

	hold("")
	c.line("farsync who --json /x | sed 's/.*\"holder\":\"\\([^\"]*\\)\".*/name=\\1=/'")
	c.expect("name=")
	until(t, "the name is shown", func() bool { return c.find(" nightly=\r\n") >= 0 })
	name := c.out.String()[c.read : c.read+c.find("=\r\n")]
	c.line("farsync break --ask 0 /x")
	c.expect(ask)
	c.keys(name + "\n")
	c.code("0")
	c.line("wait; farsync who -q /x; echo free=$?")
	c.expect("free=1\r\n")

	for range 2 {
		hold("--limit 2")
	}
	c.line("until [ $(farsync who /x | grep -c holds) = 2 ]; do sleep 0.02; done")
	c.line("farsync break --ask 0 /x")
	c.expect("Type the token of the lease to end: ")
	c.keys("yes\n")
	c.expect(`"yes" is no token, and there are 2 holders: nothing was done`)
	c.code("64")
	c.line("kill %1 %2; wait; farsync break /x")
	c.expect("nobody holds /x")
	c.code("1")
}
