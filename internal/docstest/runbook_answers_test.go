//go:build unix

package docstest_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/sqlite"
)

// TestRunbookAnswersSixQuestionsFirst runs the command of each answer with which the runbook begins, and finds the line that
// is printed there in what the command says.
func TestRunbookAnswersSixQuestionsFirst(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(document(t, "docs/RUNBOOK.md"), "\n## ")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n## ")
	require.True(t, found)
	require.Less(t, strings.Count(table, "\n"), 25, "the answers are one screen")
	type answer struct{ command, prints string }
	var answers []answer
	for _, row := range regexp.MustCompile("(?m)^\\| \\*\\*\\d\\. [^|]* \\| `([^`|]+)` \\| `([^`|]+)`[^|]* \\| [^|]*\\]\\([^|]* \\|$").FindAllStringSubmatch(table, -1) {
		answers = append(answers, answer{row[1], row[2]})
	}
	require.Len(t, answers, 6)

	// on makes a holder and a waiter in a file of their own, and returns a function that makes the command of an answer.
	on := func(t *testing.T) (s scene, file string, command func(n int) *exec.Cmd) {
		file = filepath.Join(t.TempDir(), "locks.db")
		s = newScene(t, func(o farsync.Options) *farsync.Store {
			store, err := sqlite.Open(within(t, soon), file, &sqlite.Options{Options: o})
			require.NoError(t, err)
			return store
		})
		return s, file, func(n int) *exec.Cmd {
			return shell(t, answers[n-1].command, "sqlite:"+file, "TOKEN="+s.list[0].Token.String())
		}
	}
	// alike leaves out of a line what differs from one day to another: times, tokens, and how wide its columns are.
	alike := func(line string) string {
		for _, part := range []struct{ pattern, name string }{
			{`\b20\d\d-[\d:T-]+Z`, "TIME"},
			{`\b\d{15,}\b`, "TOKEN"},
			{`(≤ )?\b(\d+(h|m|s|ms))+\b`, "FOR"},
			{`^/locks/billing +(worker-1 .*)`, "$1"},
			{`\s+`, " "},
		} {
			line = regexp.MustCompile(part.pattern).ReplaceAllString(line, part.name)
		}
		return strings.TrimSpace(line)
	}
	has := func(t *testing.T, n int, said string) {
		t.Helper()
		for line := range strings.Lines(said) {
			if alike(line) == alike(answers[n-1].prints) {
				return
			}
		}
		require.Fail(t, "no such line", "%s\n%s", answers[n-1].prints, said)
	}

	t.Run("who", func(t *testing.T) {
		t.Parallel()
		_, _, command := on(t)
		for n := 1; n <= 2; n++ {
			has(t, n, run(t, command(n), ""))
		}
	})
	t.Run("ask", func(t *testing.T) {
		t.Parallel()
		s, _, command := on(t)
		asked, released := s.holder.Asked(), make(chan error)
		go func() { // ends when it is asked, which the command does
			<-asked
			released <- s.holder.Release()
		}()
		has(t, 3, run(t, command(3), ""))
		require.NoError(t, <-released)
	})
	t.Run("break", func(t *testing.T) {
		t.Parallel()
		s, _, command := on(t)
		has(t, 4, run(t, command(4), ""))
		<-s.holder.Done()
		require.ErrorIs(t, s.holder.Err(), farsync.ErrBroken)
		next := <-s.next
		require.NotNil(t, next)
		require.NoError(t, next.Release())
	})
	t.Run("doctor", func(t *testing.T) {
		t.Parallel()
		_, file, command := on(t)
		insert := "INSERT INTO farsync_entries (queue, id, kind, units, version, since) VALUES (?, '4711', 'exclusive', 1, 1, 0)"
		_, err := openSQLite(t, file).ExecContext(t.Context(), insert, billing)
		require.NoError(t, err)
		said, err := command(5).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		has(t, 5, string(said))
	})
	t.Run("watch", func(t *testing.T) {
		t.Parallel()
		s, _, command := on(t)
		watch := command(6)
		watch.Args[2] = "exec " + watch.Args[2] // the signal below is for the command
		pipe, err := watch.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, watch.Start())
		lines := bufio.NewScanner(pipe)
		for lines.Scan() && !strings.Contains(lines.Text(), " holds worker-2 ") {
			if strings.Contains(lines.Text(), " waits worker-2 ") {
				require.NoError(t, s.holder.Release())
				require.NotNil(t, <-s.next)
			}
		}
		has(t, 6, lines.Text())
		require.NoError(t, watch.Process.Signal(os.Interrupt))
		require.NoError(t, watch.Wait())
	})
}
