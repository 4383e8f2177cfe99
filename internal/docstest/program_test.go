//go:build unix

package docstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramOfTheReadmeRuns builds the README's program in this module, and runs it beside another of it that is killed.
func TestProgramOfTheReadmeRuns(t *testing.T) {
	programs := blocks(t, "README.md", "go", "package main")
	require.Len(t, programs, 1)
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, []byte("package main\n"+programs[0]), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput()
	require.NoError(t, err, string(out))

	first := exec.CommandContext(within(t, soon), program)
	first.Dir = dir
	lines, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	said := make([]byte, len("billing, token "))
	_, err = lines.Read(said)
	require.NoError(t, err)
	require.Equal(t, "billing, token ", string(said))
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())

	second := exec.CommandContext(within(t, soon), program)
	second.Dir = dir
	require.Regexp(t, `^billing, token \d+$`, run(t, second, ""))
}
