//go:build unix

package docstest_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// TestSmallPrograms runs the programs to copy as they stand.
func TestSmallPrograms(t *testing.T) {
	t.Parallel()
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
		first := begin(t, start("cron", "cron.db"))
		first.finds(t, `^the job, token (\d+)$`)
		require.Contains(t, second(), left)
		first.ends(t, syscall.SIGTERM)
		require.Contains(t, second(), left)
	})

	t.Run("leader", func(t *testing.T) {
		token := func(leader *terminal) farsync.Token {
			n, err := strconv.ParseInt(leader.finds(t, `^leads, token (\d+)$`), 10, 64)
			require.NoError(t, err)
			return farsync.Token(n)
		}
		const address = `^serves on (127\.0\.0\.1:\d+)$`
		another := func() *terminal { return begin(t, start("leader", "leader.db", "127.0.0.1:0")) }
		first := another()
		leads := first.finds(t, address)
		before := token(first)
		second := another()
		waits := second.finds(t, address)
		require.Equal(t, "200 alive", answer(t, leads, "/livez"))
		require.Equal(t, "200 ready", answer(t, leads, "/readyz"))
		require.Equal(t, "200 alive", answer(t, waits, "/livez"))
		require.Equal(t, "200 ready", answer(t, waits, "/readyz"))
		require.Equal(t, "200 "+leads, answer(t, waits, "/leader"))
		third := another()
		third.finds(t, address)
		third.ends(t, syscall.SIGTERM) // it waits, or is about to, and ends as a leader does
		first.ends(t, syscall.SIGTERM)
		require.Greater(t, token(second), before)
		require.Equal(t, "200 "+waits, answer(t, waits, "/leader"))
		second.ends(t, syscall.SIGTERM)
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
		one, two := begin(t, start("pool", "pool.db", "a", "b", "c", "d")), begin(t, start("pool", "pool.db", "e", "f", "g", "h"))
		of := func(pool *terminal) []string {
			all, err := io.ReadAll(pool.lines)
			require.NoError(t, err)
			return strings.Fields(strings.ReplaceAll(string(all), "done: ", ""))
		}
		require.ElementsMatch(t, []string{"a", "b", "c", "d"}, of(one))
		require.ElementsMatch(t, []string{"e", "f", "g", "h"}, of(two))
		require.NoError(t, one.cmd.Wait())
		require.NoError(t, two.cmd.Wait())
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
