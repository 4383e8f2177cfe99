//go:build unix

package docstest_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A terminal is a program that was started in one.
type terminal struct {
	cmd   *exec.Cmd
	lines *bufio.Reader
}

// begin starts a program. It is ended with the test, if it has not ended before.
func begin(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // again, where its end was awaited
	})
	return &terminal{cmd, bufio.NewReader(out)}
}

// line waits for a line.
func (o *terminal) line(t *testing.T) string {
	t.Helper()
	line, err := o.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSuffix(line, "\n")
}

// says waits for a line that is like the page's.
func (o *terminal) says(t *testing.T, like string) {
	t.Helper()
	require.Regexp(t, pattern(like), o.line(t))
}

// finds waits for a line, and returns what stands at the first group of the expression.
func (o *terminal) finds(t *testing.T, expression string) string {
	t.Helper()
	line := o.line(t)
	found := regexp.MustCompile(expression).FindStringSubmatch(line)
	require.NotNil(t, found, "%q is not %q", line, expression)
	return found[1]
}

// ends sends a signal, and returns what is said after it. The program has to end with exit code 0, unless it is killed.
func (o *terminal) ends(t *testing.T, signal os.Signal) string {
	t.Helper()
	require.NoError(t, o.cmd.Process.Signal(signal))
	rest, err := io.ReadAll(o.lines)
	require.NoError(t, err)
	if err := o.cmd.Wait(); signal != syscall.SIGKILL {
		require.NoError(t, err)
	}
	return strings.TrimSpace(string(rest))
}
