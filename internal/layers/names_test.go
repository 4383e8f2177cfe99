package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lent are the names of package farsync that a backend may use: what its Open returns and takes, and no primitive.
var lent = []string{"Open", "Store", "Options", "State", "Trace", "StateConnected", "StateSuspended", "StateLost", "Error", "Guarded"}

// met are the packages that a program imports.
var met = []string{
	farsync, "etcd", "zk", "sqlite", "redis", "postgres", "mysql", "farsynctest", "live", "adapt", "otelfarsync", "promfarsync",
}

func TestBackendsUseNoPrimitive(t *testing.T) {
	for _, backend := range []string{"etcd", "zk", "sqlite", "redis", "postgres", "mysql"} {
		for name, file := range parse(t, backend) {
			for _, used := range selectors(file, file, module) {
				if !slices.Contains(lent, used) && !strings.HasPrefix(used, "Err") {
					t.Errorf("%s uses farsync.%s: a backend makes Stores, and knows nothing of what is made on them", name, used)
				}
			}
		}
	}
}

// A user meets package farsync and a backend.
func TestNoSignatureNamesRecipe(t *testing.T) {
	for _, of := range met {
		for name, file := range parse(t, of) {
			for _, wrong := range named(file, module+"/recipe") {
				t.Errorf("%s: %s", name, wrong)
			}
		}
	}
}

// An alias would send those who look it up to the package that it is of.
func TestNoTypeIsAnAlias(t *testing.T) {
	for _, of := range met {
		for name, file := range parse(t, of) {
			for _, d := range file.Decls {
				d, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() && spec.Assign.IsValid() {
						t.Errorf("%s: %s is an alias", name, spec.Name.Name)
					}
				}
			}
		}
	}
}

// TestGoDocAnswers: whoever looks up the package, a method of a Store, an option, or what a Trace is told, finds it in package farsync, and
// is sent nowhere else.
func TestGoDocAnswers(t *testing.T) {
	lookAtSources(t)
	for _, name := range []string{
		".", "Open", "Store", "Store.Close", "Store.State", "Store.Name", "Options", "Options.TTL", "State", "State.String", "StateConnected", "Kind",
		"KindPermit", "Trace", "Trace.Acquire", "TraceCall.Kind", "TraceResult.Waited", "TraceWait.Holder", "TraceEnd.Held", "TraceSession.Left",
	} {
		require.NotContains(t, goDoc(t, name), "recipe.", name)
	}
}

// TestGoDocIsRead: the package takes no more than three screens of 45 lines, and of its options every field is shown.
func TestGoDocIsRead(t *testing.T) {
	lookAtSources(t)
	require.LessOrEqual(t, strings.Count(goDoc(t, "."), "\n"), 3*45)
	options := goDoc(t, "Options")
	for _, field := range []string{"TTL time.Duration", "Holder string", "Name string", "Lazy bool", "Logger *slog.Logger", "OnState func(State)", "Trace *Trace"} {
		require.Regexp(t, `(?m)^\t`+regexp.QuoteMeta(field)+`$`, options)
	}
}

// goDoc returns what go doc says of a name in package farsync, or of the package: ".".
func goDoc(t *testing.T, name string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "doc", ".", name)
	if name == "." {
		command = exec.CommandContext(t.Context(), "go", "doc", ".")
	}
	command.Dir = root
	said, err := command.CombinedOutput()
	require.NoError(t, err, "go doc farsync %s: %s", name, said)
	return string(said)
}

// The tests above would not notice that they look at nothing.
func TestNamesAreSeen(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
import ( r "github.com/farsync/farsync/recipe"; "github.com/farsync/farsync" )
type Store = r.Store
type hidden struct { H *r.Hold }
type Shown struct { H *r.Hold; h *r.Hold }
type Of[T r.Rule] interface { M(r.Rule) }
var ErrLocked = r.ErrLocked
var Typed r.Kind
const C r.Kind = 1
func Open(*farsync.Store) (x []r.Entry, err error) { return nil, farsync.NewMutex(nil, "") }
func open(r.Entry) {}
func (h hidden) Open(r.Entry) {}
func (s *Shown) Open(func(r.Entry)) {}
`, 0)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Store names recipe.Store", "Shown names recipe.Hold", "Of names recipe.Rule", "Of names recipe.Rule", "Typed names recipe.Kind", "C names recipe.Kind",
		"Open names recipe.Entry", "Open names recipe.Entry",
	}, named(file, module+"/recipe"))
	require.Equal(t, []string{"Store", "NewMutex"}, selectors(file, file, module))
}

// parse returns the files of a package, without its tests.
func parse(t *testing.T, of string) map[string]*ast.File {
	t.Helper()
	lookAtSources(t)
	paths, err := filepath.Glob(filepath.Join(root, of, "*.go"))
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files[path] = file
	}
	require.NotEmpty(t, files, of)
	return files
}

// selectors returns the names of the imported package that a part of the file uses.
func selectors(file *ast.File, part ast.Node, path string) (used []string) {
	called := ""
	for _, i := range file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err == nil && p == path {
			called = path[strings.LastIndexByte(path, '/')+1:]
			if i.Name != nil {
				called = i.Name.Name
			}
		}
	}
	ast.Inspect(part, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == called {
				used = append(used, s.Sel.Name)
			}
		}
		return true
	})
	return used
}

// named returns where the exported declarations of a file name the imported package. A variable or constant may have one of its
// values, which is not looked at.
func named(file *ast.File, path string) (wrong []string) {
	look := func(of string, part ast.Node) {
		for _, name := range selectors(file, part, path) {
			wrong = append(wrong, fmt.Sprintf("%s names %s.%s", of, path[strings.LastIndexByte(path, '/')+1:], name))
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exported(d.Recv.List[0].Type)) {
				look(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						if spec.TypeParams != nil {
							look(spec.Name.Name, spec.TypeParams)
						}
						lookAtType(spec, look)
					}
				case *ast.ValueSpec:
					if spec.Names[0].IsExported() && spec.Type != nil {
						look(spec.Names[0].Name, spec.Type)
					}
				}
			}
		}
	}
	return wrong
}

// lookAtType leaves out the fields of a struct that are not exported.
func lookAtType(spec *ast.TypeSpec, look func(of string, part ast.Node)) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		look(spec.Name.Name, spec.Type)
		return
	}
	for _, f := range fields.Fields.List {
		if len(f.Names) == 0 || f.Names[0].IsExported() {
			look(spec.Name.Name, f.Type)
		}
	}
}

// exported reports whether a receiver's type is.
func exported(receiver ast.Expr) bool {
	switch r := receiver.(type) {
	case *ast.StarExpr:
		return exported(r.X)
	case *ast.IndexExpr:
		return exported(r.X)
	case *ast.IndexListExpr:
		return exported(r.X)
	case *ast.Ident:
		return r.IsExported()
	default:
		return true
	}
}
