//go:build unix

package docstest_test

import (
	"encoding/json"
	"fmt"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A box is one executable with several programs in it, for the linker takes most of the time that it takes to build one.
type box struct{ file string }

// newBox builds the programs with these sources, by name. Each is a package of its own in which main is called Main, and else as it stands. The
// packages are in folders of this module that the compiler alone sees, so what has not changed is in its cache the next time; yet they import no
// more than a program of another module may. The box stays in the folder.
func newBox(t *testing.T, in, name string, sources map[string]string) *box {
	t.Helper()
	root, err := filepath.Abs(name)
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	write := func(path, content string) {
		file := filepath.Join(in, strings.ReplaceAll(path, "/", "-"))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		overlay.Replace[filepath.Join(root, path)] = file
	}
	var imports, cases strings.Builder
	for i, program := range slices.Sorted(maps.Keys(sources)) {
		source := sources[program]
		formatted, err := format.Source([]byte(source))
		require.NoError(t, err, program)
		require.Equal(t, string(formatted), source, "%s is not formatted", program)
		require.NotContains(t, source, "farsync/farsync/internal", program)
		for _, line := range []struct{ old, other string }{{"package main\n", "package boxed\n"}, {"\nfunc main() {", "\nfunc Main() {"}} {
			require.Equal(t, 1, strings.Count(source, line.old), "%q in %s", line.old, program)
			source = strings.Replace(source, line.old, line.other, 1)
		}
		write(program+"/main.go", source)
		fmt.Fprintf(&imports, "\tp%d \"github.com/farsync/farsync/internal/docstest/%s/%s\"\n", i, name, program)
		fmt.Fprintf(&cases, "\tcase %q:\n\t\tp%d.Main()\n", program, i)
	}
	write("main.go", "package main\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n"+imports.String()+
		")\n\nfunc main() {\n\tswitch filepath.Base(os.Args[0]) {\n"+cases.String()+"\tdefault:\n\t\tpanic(os.Args[0])\n\t}\n}\n")
	list := filepath.Join(in, name+".json")
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, text, 0o600))
	b := &box{filepath.Join(in, name)}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-overlay", list, "-o", b.file, "./"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	return b
}

// program returns the path of a program, in a folder of the test's.
func (b *box) program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Symlink(b.file, path))
	return path
}

// pages is the box of the programs of all documents.
var pages struct {
	once sync.Once
	*box // nil: it could not be built
}

// programOf returns the path of the program of a document: of its page, or what a test makes of the page's code.
func programOf(t *testing.T, page string) string {
	t.Helper()
	pages.once.Do(func() {
		sources := map[string]string{"CRON": printedProgram(t, "docs/CRON.md"), "HEALTH": healthProgram(t), "NAMES": namesProgram(t), "TIMEOUTS": timeoutsProgram(t)}
		for _, pattern := range []string{"coming-from-*", "start/*"} {
			documents, err := filepath.Glob("../../docs/" + pattern + ".md")
			require.NoError(t, err)
			for _, path := range documents {
				sources[strings.TrimSuffix(filepath.Base(path), ".md")] = printedProgram(t, strings.TrimPrefix(path, "../../"))
			}
		}
		pages.box = newBox(t, folder(t), "pages", sources)
	})
	require.NotNil(t, pages.box, "the programs of the documents were not built: the first test that needed one says why")
	return pages.program(t, page)
}

// printedProgram returns the one program that a document prints.
func printedProgram(t *testing.T, page string) string {
	t.Helper()
	programs := blocks(t, page, "go", "package main")
	require.Len(t, programs, 1)
	return "package main\n" + programs[0] + "\n"
}
