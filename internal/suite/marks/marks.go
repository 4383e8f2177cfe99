// Package marks reads from test files which tests are for make long: a test says so by calling suite.Long or suite.More itself.
package marks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// suitePath is imported by a file that marks tests.
const suitePath = `"github.com/farsync/farsync/internal/suite"`

// areas are the constants of package suite, by name.
var areas = map[string]string{
	"Etcd": "etcd", "ZooKeeper": "zk", "Redis": "redis", "Postgres": "postgres", "MySQL": "mysql", "SQLite": "sqlite", "Command": "command",
	"Live": "live", "Quorum": "quorum", "Layers": "layers", "Model": "model",
}

// A Mark says that a test is for make long.
type Mark struct {
	Area, Folder, Test string
	// Part is true if make test does something of the test.
	Part bool
}

// String is a line of what list prints.
func (m Mark) String() string {
	what := "whole"
	if m.Part {
		what = "part"
	}
	return strings.Join([]string{m.Area, m.Folder, m.Test, what}, "\t")
}

// Read returns the marks below folders, in order. A mark outside of a top-level test is an error, for nothing would find it by the test's
// name.
func Read(folders ...string) ([]Mark, error) {
	var found []Mark
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || path != folder && strings.HasPrefix(d.Name(), ".")):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
				return nil
			}
			marks, err := readFile(path)
			found = append(found, marks...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b Mark) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(found), nil
}

func readFile(path string) ([]Mark, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == suitePath }) {
		return nil, nil
	}
	var found []Mark
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		isTest := ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test")
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || err != nil {
				return err == nil
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); !ok || x.Name != "suite" || selector.Sel.Name != "Long" && selector.Sel.Name != "More" {
				return true
			}
			if !isTest {
				err = fmt.Errorf("%s: suite.%s stands in no top-level test", files.Position(call.Pos()), selector.Sel.Name)
				return false
			}
			var area string
			if len(call.Args) > 1 {
				if a, ok := call.Args[1].(*ast.SelectorExpr); ok {
					area = areas[a.Sel.Name]
				}
			}
			if area == "" {
				err = fmt.Errorf("%s: the area of suite.%s is no constant of suite", files.Position(call.Pos()), selector.Sel.Name)
				return false
			}
			// Long on a t that is not the test's own leaves out a part alone.
			whole := selector.Sel.Name == "Long" && slices.ContainsFunc(fn.Body.List, func(s ast.Stmt) bool {
				e, ok := s.(*ast.ExprStmt)
				return ok && e.X == ast.Expr(call)
			})
			found = append(found, Mark{Area: area, Folder: filepath.ToSlash(filepath.Dir(path)), Test: fn.Name.Name, Part: !whole})
			return true
		})
	}
	return found, err
}

// Of returns the marks of an area.
func Of(marks []Mark, area string) []Mark {
	return slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return m.Area != area })
}

// A Pattern are the tests of one package, for go test -run.
type Pattern struct{ Folder, Run string }

// Patterns returns one for each package, in order.
func Patterns(marks []Mark) []Pattern {
	tests := map[string][]string{}
	for _, m := range marks {
		tests[m.Folder] = append(tests[m.Folder], m.Test)
	}
	patterns := make([]Pattern, 0, len(tests))
	for folder, names := range tests {
		slices.Sort(names)
		patterns = append(patterns, Pattern{folder, "^(" + strings.Join(slices.Compact(names), "|") + ")$"})
	}
	slices.SortFunc(patterns, func(a, b Pattern) int { return strings.Compare(a.Folder, b.Folder) })
	return patterns
}
