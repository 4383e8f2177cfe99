package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A tree is a repository with the folder api.
type tree struct {
	root    string
	module  repository
	modules map[string]bool           // folders with a go.mod: whether programs import what is in them
	only    map[string]*regexp.Regexp // by import path: the lines that are under the promise, where not all are
}

// only: the promise for embedtest covers how a program starts, finds and closes a server. The faults of servers serve
// the tests of this repository, and change with them.
var only = map[string]*regexp.Regexp{
	string(module) + "/embedtest": regexp.MustCompile(`^func (Start|Main\(|Child\()|^method \S+ (Close|Endpoints?|URL|DSN)\(`),
}

func (t tree) path(name string) string { return filepath.Join(t.root, filepath.FromSlash(name)) }

// exported returns the lines of each package that programs import, by the name of its file.
func (t tree) exported() (map[string][]string, error) {
	if err := t.everyModuleIsKnown(); err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, folder := range slices.Sorted(maps.Keys(t.modules)) {
		if !t.modules[folder] {
			continue
		}
		if err := t.exportedBy(folder, found); err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
	}
	return found, nil
}

// everyModuleIsKnown: a module of its own that nobody lists would be under no check.
func (t tree) everyModuleIsKnown() error {
	there := map[string]bool{}
	err := filepath.WalkDir(t.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != t.root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.Name() == "go.mod":
			folder, err := filepath.Rel(t.root, filepath.Dir(path))
			there[filepath.ToSlash(folder)] = true
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	for folder := range there {
		if _, known := t.modules[folder]; !known {
			return fmt.Errorf("%s is a module that internal/api does not know: list it there, with whether programs import it", folder)
		}
	}
	for folder := range t.modules {
		if !there[folder] {
			return fmt.Errorf("%s is no module: take it out of the list in internal/api", folder)
		}
	}
	return nil
}

// A listed is what go list tells of a package.
type listed struct {
	ImportPath, Name, Export string
	Standard                 bool
}

func (t tree) exportedBy(folder string, found map[string][]string) error {
	packages, err := t.list(folder, "./...")
	if err != nil {
		return err
	}
	var public []string
	for _, p := range packages {
		if p.Name != "main" && !t.module.hides(p.ImportPath) {
			public = append(public, p.ImportPath)
		}
	}
	if len(public) == 0 {
		return errors.New("no package that programs import")
	}
	all, err := t.list(folder, append([]string{"-export", "-deps"}, public...)...)
	if err != nil {
		return err
	}
	data := map[string]string{}
	for _, p := range all {
		data[p.ImportPath] = p.Export
	}
	reader := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if data[path] == "" {
			return nil, fmt.Errorf("go list -export has nothing of %s", path)
		}
		return os.Open(data[path])
	})
	for _, path := range public {
		pkg, err := reader.Import(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		lines := surface(pkg, t.module)
		if under := t.only[path]; under != nil {
			lines = slices.DeleteFunc(lines, func(line string) bool { return !under.MatchString(line) })
		}
		found[t.nameOf(path)] = lines
	}
	return nil
}

// nameOf returns the name of a package's file, without its ending: farsync, redis, driver-drivertest.
func (t tree) nameOf(path string) string {
	if path == string(t.module) {
		return path[strings.LastIndexByte(path, '/')+1:]
	}
	return strings.ReplaceAll(strings.TrimPrefix(path, string(t.module)+"/"), "/", "-")
}

// list runs go list in a module. The system is fixed, so that all who run it get the same lines.
func (t tree) list(folder string, arguments ...string) (packages []listed, err error) {
	command := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Export,Standard"}, arguments...)...)
	command.Dir = t.path(folder)
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "GOPROXY=off")
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaints.String())
	}
	for decoder := json.NewDecoder(&out); ; {
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		packages = append(packages, p)
	}
}
