//go:build unix

package docstest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon is when a test is taken to hang.
const soon = time.Minute

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// blocks returns the fenced blocks of a language in a document whose first line is the given one, without that line.
func blocks(t testing.TB, name, language, first string) (found []string) {
	t.Helper()
	for i, part := range strings.Split("\n"+document(t, name), "\n```") {
		body, ok := strings.CutPrefix(part, language+"\n")
		if i%2 == 0 || !ok {
			continue // outside of a block, or in another language
		}
		if rest, ok := strings.CutPrefix(body, first+"\n"); ok {
			found = append(found, rest)
		}
	}
	require.NotEmpty(t, found, "%s has no %s block that begins with %q", name, language, first)
	return found
}

func document(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	require.NoError(t, err)
	return string(text)
}

// run feeds the text to a command and returns what it prints.
func run(t testing.TB, command *exec.Cmd, text string) string {
	t.Helper()
	command.Stdin = strings.NewReader(text)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	return strings.TrimSpace(string(out))
}
