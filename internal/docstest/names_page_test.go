//go:build unix

package docstest_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
	"github.com/farsync/farsync/sqlite"
)

func namesProgram(t *testing.T) string {
	t.Helper()
	const first = "func lock(store *farsync.Store, tenant, order string) *farsync.Mutex {"
	code := blocks(t, "docs/NAMES.md", "go", first)
	require.Len(t, code, 1)
	return `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/farsynctest"
)

func main() {
	store := farsynctest.NewMem().Open(nil)
	if _, err := lock(store, os.Args[1], os.Args[2]).Lock(context.Background()); err != nil {
		panic(err)
	}
	for held, err := range store.Survey(context.Background(), "") {
		fmt.Println(held.Path, err)
	}
}

` + first + "\n" + code[0] + "\n"
}

// TestNamesOfThePage runs the code of docs/NAMES.md over each row of its table.
func TestNamesOfThePage(t *testing.T) {
	program := programOf(t, "NAMES")
	rows := regexp.MustCompile("(?m)^\\| ([^|]+), ([^|]+) \\| `(/orders/[^`]+)` \\|$").FindAllStringSubmatch(document(t, "docs/NAMES.md"), -1)
	require.Len(t, rows, 6)
	key := func(shown string) string {
		switch shown {
		case "nothing":
			return ""
		case "`x` 200 times":
			return strings.Repeat("x", 200)
		}
		require.Regexp(t, "^`[^`]+`$", shown)
		return strings.Trim(shown, "`")
	}
	for _, row := range rows {
		require.Equal(t, row[3]+" <nil>", run(t, exec.CommandContext(within(t, soon), program, key(row[1]), key(row[2])), ""))
	}
}

// TestErrorsOfTheNamesPage makes each error that docs/NAMES.md prints.
func TestErrorsOfTheNamesPage(t *testing.T) {
	t.Parallel()
	text := document(t, "docs/NAMES.md")
	store := farsynctest.NewMem().Open(nil)
	t.Cleanup(func() { _ = store.Close() })
	_, rules, found := strings.Cut(text, "| rule | ")
	require.True(t, found)
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^|]*)` \\|$").FindAllStringSubmatch(rules, -1)
	paths := []string{"orders", "/orders//ada", "/orders/ada@example.com", "/" + strings.Repeat("x", 129), strings.Repeat("/seven77", 129), "/..", "/_c_ada", "/zookeeper/locks"}
	require.Len(t, rows, len(paths))
	for i, path := range paths {
		_, err := farsync.NewMutex(store, path).Lock(within(t, soon))
		require.ErrorIs(t, err, farsync.ErrPath)
		require.True(t, strings.HasSuffix(err.Error(), ": "+rows[i][1]), "%v\n%s", err, rows[i][1])
	}
	eight := make([]string, 8)
	for i := range eight {
		eight[i] = strings.Repeat("x", 128)
	}
	_, err := farsync.NewMutex(store, farsync.PathOf("/", eight...)).Lock(within(t, soon))
	require.ErrorIs(t, err, farsync.ErrPath)
	_, err = farsync.NewMutex(store, farsync.PathOf("/", eight[1:]...)).Lock(within(t, soon))
	require.NoError(t, err)

	_, err = farsync.NewMutex(store, paths[2]).Lock(within(t, soon))
	require.Contains(t, text, "\n```\n"+err.Error()+"\n```\n")
	_, err = farsync.NewSemaphore(store, "/limits/imports", 3).Acquire(within(t, soon), 1)
	require.NoError(t, err)
	_, err = farsync.NewSemaphore(store, "/limits/imports", 5).Acquire(within(t, soon), 1)
	require.ErrorIs(t, err, farsync.ErrSize)
	require.Contains(t, text, "\n```\n"+err.Error()+"\n```\n")
}

// TestResizeOfTheNamesPage runs the command of docs/NAMES.md beside a holder of the size of before.
func TestResizeOfTheNamesPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "locks.db")
	store, err := sqlite.Open(within(t, soon), file, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	imports := farsync.NewSemaphore(store, "/limits/imports", 3)
	_, err = imports.Acquire(within(t, soon), 3)
	require.NoError(t, err)
	lines := regexp.MustCompile("(?m)^farsync resize .*$").FindAllString(document(t, "docs/NAMES.md"), -1)
	require.Len(t, lines, 1)
	run(t, shell(t, lines[0], "sqlite:"+file), "")
	_, err = imports.Acquire(within(t, soon), 2)
	require.NoError(t, err)
}
