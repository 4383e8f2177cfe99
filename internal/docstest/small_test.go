//go:build unix

package docstest_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
)

// small returns how to start the programs of examples/small, each process with the files of one folder.
func small(t *testing.T) (start func(program string, arguments ...string) *exec.Cmd) {
	t.Helper()
	sources := map[string]string{}
	mains, err := filepath.Glob("../../examples/small/*/main.go")
	require.NoError(t, err)
	require.Len(t, mains, 5)
	for _, path := range mains {
		name := filepath.Base(filepath.Dir(path))
		sources[name] = document(t, "examples/small/"+name+"/main.go")
	}
	built, files := newBox(t, t.TempDir(), "small", sources), t.TempDir()
	return func(program string, arguments ...string) *exec.Cmd {
		cmd := exec.CommandContext(within(t, soon), built.program(t, program), arguments...)
		cmd.Dir, cmd.Stderr = files, os.Stderr
		return cmd
	}
}

// begin starts a command, and returns the lines that it writes.
func begin(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	lines, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return bufio.NewReader(lines)
}

// says reads a line, and returns what stands at the first group of the pattern.
func says(t *testing.T, lines *bufio.Reader, pattern string) string {
	t.Helper()
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	found := regexp.MustCompile(pattern).FindStringSubmatch(strings.TrimSuffix(line, "\n"))
	require.NotNil(t, found, "%q is not %q", line, pattern)
	return found[1]
}

// told sends SIGTERM, and waits for the end, which has to be exit code 0.
func told(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// TestSmallPrograms runs the programs to copy as they stand.
func TestSmallPrograms(t *testing.T) {
	start := small(t)

	t.Run("Usage", func(t *testing.T) {
		for _, program := range []string{"cron", "leader", "fence", "pool", "lostlease"} {
			cmd := start(program)
			cmd.Stderr = nil
			said, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(said), "usage: "+program+" ")
		}
	})

	t.Run("cron", func(t *testing.T) { // one of three runs the job, also after the first was told to end
		const left = "another machine runs it, or has just run it"
		second := func() string {
			cmd := start("cron", "cron.db")
			cmd.Stderr = nil
			return run(t, cmd, "")
		}
		first := start("cron", "cron.db")
		says(t, begin(t, first), `^the job, token (\d+)$`)
		require.Contains(t, second(), left)
		told(t, first)
		require.Contains(t, second(), left)
	})

	t.Run("leader", func(t *testing.T) {
		token := func(lines *bufio.Reader) farsync.Token {
			n, err := strconv.ParseInt(says(t, lines, `^leads, token (\d+)$`), 10, 64)
			require.NoError(t, err)
			return farsync.Token(n)
		}
		const address = `^serves on (127\.0\.0\.1:\d+)$`
		first, second, third := start("leader", "leader.db", "127.0.0.1:0"), start("leader", "leader.db", "127.0.0.1:0"), start("leader", "leader.db", "127.0.0.1:0")
		lines := begin(t, first)
		leads := says(t, lines, address)
		before := token(lines)
		lines = begin(t, second)
		waits := says(t, lines, address)
		require.Equal(t, "200 alive", answer(t, leads, "/livez"))
		require.Equal(t, "200 ready", answer(t, leads, "/readyz"))
		require.Equal(t, "200 alive", answer(t, waits, "/livez"))
		require.Equal(t, "200 ready", answer(t, waits, "/readyz"))
		require.Equal(t, "200 "+leads, answer(t, waits, "/leader"))
		says(t, begin(t, third), address)
		told(t, third) // it waits, or is about to, and ends as a leader does
		told(t, first)
		require.Greater(t, token(lines), before)
		require.Equal(t, "200 "+waits, answer(t, waits, "/leader"))
		told(t, second)
	})

	t.Run("fence", func(t *testing.T) {
		pay := func() *exec.Cmd {
			cmd := start("fence", "locks.db", "accounts.db")
			cmd.Stderr = nil
			return cmd
		}
		require.Equal(t, "the balance is 100", run(t, pay(), ""))
		require.Equal(t, "the balance is 200", run(t, pay(), ""))
		db := openSQLite(t, filepath.Join(pay().Dir, "accounts.db"))
		_, err := db.ExecContext(t.Context(), "UPDATE account SET fence = 1 << 62")
		require.NoError(t, err)
		said, err := pay().CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(said), "a later holder has the account: nothing was paid")
		var balance int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&balance))
		require.Equal(t, 200, balance)
	})

	t.Run("pool", func(t *testing.T) {
		one, two := start("pool", "pool.db", "a", "b", "c", "d"), start("pool", "pool.db", "e", "f", "g", "h")
		of := func(lines *bufio.Reader) []string {
			all, err := io.ReadAll(lines)
			require.NoError(t, err)
			return strings.Fields(strings.ReplaceAll(string(all), "done: ", ""))
		}
		first, second := begin(t, one), begin(t, two)
		require.ElementsMatch(t, []string{"a", "b", "c", "d"}, of(first))
		require.ElementsMatch(t, []string{"e", "f", "g", "h"}, of(second))
		require.NoError(t, one.Wait())
		require.NoError(t, two.Wait())
	})
}

// answer asks a program, and returns the status and the text.
func answer(t *testing.T, address, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(within(t, soon), http.MethodGet, "http://"+address+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return strconv.Itoa(response.StatusCode) + " " + strings.TrimSpace(string(text))
}

// TestPageHasTheTestThatRuns: the code of docs/TESTING.md is the code of examples/small/lostlease.
func TestPageHasTheTestThatRuns(t *testing.T) {
	program := document(t, "examples/small/lostlease/main.go") + document(t, "examples/small/lostlease/main_test.go")
	of := strings.Split(document(t, "docs/TESTING.md"), "```go\n")
	require.Len(t, of, 3)
	for _, block := range of[1:] {
		code, _, _ := strings.Cut(block, "```")
		require.Contains(t, program, code)
	}
}
