// Command api compares the exported names of this repository's public packages with the files of the folder api: a file
// for each package and a line for each symbol, as Go keeps them of its standard library. So a change of a public name
// is seen in the commit that makes it.
//
//	api           fails where a file differs from the code, and where CHANGELOG.md does not name a symbol that users lose
//	api -write    writes the files
//
// A line that goes away or changes moves to api/removed.txt. The first section of CHANGELOG.md, which is the section of
// the next version, has to name the symbol of each such line: Mutex.TryDo, redis.Options.Fresh. New lines need no name
// there. A release deletes api/removed.txt.
//
// The program reads the export data that the compiler writes of each package, with the standard library alone. Go's own
// cmd/api has the same parts, but it runs only inside of Go's source tree. The alternative was
// golang.org/x/exp/apidiff. It tells which changes break a program, but it compares two compiled trees: it needs a tag,
// the checkout of that tag and its modules, and before the first tag there is nothing to compare with. Files of text
// need none of these, and a reviewer reads the lines. In return, a reviewer has to see the few breaks that no line
// shows, such as a struct that can no longer be compared.
//
// The files describe Linux on amd64, whichever system runs the program. Only embedtest exports other names on other
// systems.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

const module repository = "github.com/farsync/farsync"

// modules are the folders with a go.mod, and whether programs import what is in them.
var modules = map[string]bool{
	".":                  true,
	"otelfarsync":        true,
	"promfarsync":        true,
	"adapt/check":        false, // runs adapt with what it adapts to
	"bench":              false, // a program
	"internal/alerttest": false,
	"tools":              false, // versions of tools
}

func main() {
	write := flag.Bool("write", false, "write the files, where the check would compare them")
	flag.Parse()
	t := tree{root: ".", module: module, modules: modules, only: only}
	if err := t.run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

// A repository is the import path of its root.
type repository string

// has reports whether a package is one of the repository.
func (r repository) has(path string) bool {
	return path == string(r) || strings.HasPrefix(path, string(r)+"/")
}

// hides reports whether a package of the repository is under no promise; docs/WHAT-MAY-CHANGE.md says so to users.
func (r repository) hides(path string) bool {
	inner, has := strings.CutPrefix(path, string(r))
	return has && (strings.Contains(inner+"/", "/internal/") || inner == "/recipe" || strings.HasPrefix(inner, "/examples/"))
}

// run compares or writes the files of the tree.
func (t tree) run(write bool) error {
	is, err := t.exported()
	if err != nil {
		return err
	}
	return t.settle(is, write)
}

// settle compares the files with what the packages export, or writes them first.
func (t tree) settle(is map[string][]string, write bool) error {
	was, err := t.read()
	if err != nil {
		return err
	}
	now := files{packages: is, removed: was.removedBy(is)}
	if write {
		if err := t.write(was, now); err != nil {
			return err
		}
		was = now
	}
	changelog, err := os.ReadFile(t.path("CHANGELOG.md"))
	if err != nil {
		return err
	}
	return errors.Join(difference(was, now), unnamed(now, section(string(changelog))))
}
