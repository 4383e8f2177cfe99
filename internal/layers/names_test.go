package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lent are the names of package farsync that a backend may use: what its Open returns and takes, and no primitive.
var lent = []string{"Store", "Options", "State", "Trace", "Connected", "Suspended", "Lost", "Error"}

func TestBackendsUseNoPrimitive(t *testing.T) {
	for _, backend := range []string{"etcd", "zk", "sqlite", "redis", "postgres"} {
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
	for _, of := range []string{farsync, "etcd", "zk", "sqlite", "redis", "postgres", "mysql"} {
		for name, file := range parse(t, of) {
			for _, wrong := range named(file, module+"/recipe") {
				t.Errorf("%s: %s", name, wrong)
			}
		}
	}
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
		"Shown names recipe.Hold", "Of names recipe.Rule", "Of names recipe.Rule", "Typed names recipe.Kind", "C names recipe.Kind",
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

// named returns where the exported declarations of a file name the imported package. An alias may stand for one of its
// types, and a variable or constant may have one of its values, which is not looked at.
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
					if spec.Name.IsExported() && !spec.Assign.IsValid() {
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
