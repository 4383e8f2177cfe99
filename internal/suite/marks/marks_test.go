package marks_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/internal/suite/marks"
)

// root is the module's directory, seen from here.
const root = "../../.."

// where lists every top-level test of the module as it was when its tests were cut into two suites, and where each runs.
const where = "testdata/where.tsv"

var update = flag.Bool("update", false, "write testdata/where.tsv anew, for the tests that it has")

// TestNoTestIsLost: each test of the list is still there, and runs where the list says; or the list says what has taken its place.
func TestNoTestIsLost(t *testing.T) {
	old, err := os.ReadFile(where)
	require.NoError(t, err)
	there, suites := tests(t), map[string][]string{}
	marked, err := marks.Read(root)
	require.NoError(t, err)
	for _, m := range marked {
		folder, err := filepath.Rel(root, m.Folder)
		require.NoError(t, err)
		name, in := folder+"\t"+m.Test, "long "+m.Area
		if m.Part {
			in = "test, more in " + in
		}
		suites[name] = append(suites[name], in)
	}
	var now bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(old))
	for lines.Scan() {
		line := lines.Text()
		fields := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") || len(fields) == 3 && strings.HasPrefix(fields[2], "replaced by ") {
			fmt.Fprintln(&now, line)
			continue
		}
		require.GreaterOrEqual(t, len(fields), 2, line)
		name := fields[0] + "\t" + fields[1]
		if !there[name] {
			t.Errorf("%s is in %s, and in no source: if another has taken its place, say \"replaced by …\" there", name, where)
		}
		in := strings.Join(suites[name], "; ")
		if in == "" {
			in = "test"
		}
		fmt.Fprintf(&now, "%s\t%s\n", name, in)
	}
	if *update {
		require.NoError(t, os.WriteFile(where, now.Bytes(), 0o666))
		return
	}
	require.Equal(t, string(old), now.String(), "go test ./internal/suite/marks -update writes it anew")
}

// tests returns the top-level tests, examples and fuzz targets below root, by folder and name.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[filepath.ToSlash(folder)+"\t"+fn.Name.Name] = true
			}
		}
		return err
	}))
	return there
}

// TestMarksAreRead from the test's own body, and nowhere else.
func TestMarksAreRead(t *testing.T) {
	read := func(body string) ([]marks.Mark, error) {
		folder := t.TempDir()
		source := "package x\n\nimport (\n\t\"testing\"\n\n\t\"github.com/farsync/farsync/internal/suite\"\n)\n\n" + body
		require.NoError(t, os.WriteFile(filepath.Join(folder, "x_test.go"), []byte(source), 0o666))
		found, err := marks.Read(folder)
		for i := range found {
			found[i].Folder = ""
		}
		return found, err
	}
	for _, row := range []struct {
		name, body string
		want       []marks.Mark
		err        string
	}{
		{"whole", `func TestA(t *testing.T) { suite.Long(t, suite.Etcd, "why") }`, []marks.Mark{{Area: "etcd", Test: "TestA"}}, ""},
		{
			"a part", `func TestA(t *testing.T) { t.Run("b", func(t *testing.T) { suite.Long(t, suite.Redis, "why") }) }`,
			[]marks.Mark{{Area: "redis", Test: "TestA", Part: true}}, "",
		},
		{
			"more", `func TestA(t *testing.T) { if suite.More(t, suite.Model) { t.Log() } }`,
			[]marks.Mark{{Area: "model", Test: "TestA", Part: true}}, "",
		},
		{"none", `func TestA(t *testing.T) {}`, nil, ""},
		{"what is no mark", `func help(t *testing.T) { suite.NotHere(t, "a disk") }`, nil, ""},
		{"outside of a test", `func help(t *testing.T) { suite.Long(t, suite.Etcd, "why") }`, nil, "suite.Long stands in no top-level test"},
		{"another area", `func TestA(t *testing.T) { suite.Long(t, area, "why") }`, nil, "no constant of suite"},
	} {
		t.Run(row.name, func(t *testing.T) {
			found, err := read(row.body)
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, found)
		})
	}
}

// TestPatternsNameEachTestOnce, a pattern for each package.
func TestPatternsNameEachTestOnce(t *testing.T) {
	all := []marks.Mark{{Area: "etcd", Folder: "b", Test: "TestB"}, {Area: "zk", Folder: "a", Test: "TestA"},
		{Area: "etcd", Folder: "b", Test: "TestA"}, {Area: "etcd", Folder: "b", Test: "TestA", Part: true}}
	require.Equal(t, []marks.Pattern{{Folder: "b", Run: "^(TestA|TestB)$"}}, marks.Patterns(marks.Of(all, "etcd")))
	require.True(t, slices.IsSortedFunc(marks.Patterns(all), func(a, b marks.Pattern) int { return strings.Compare(a.Folder, b.Folder) }))
}
