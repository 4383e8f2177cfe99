package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// files are the lines of the folder api.
type files struct {
	packages map[string][]string // by the name of the package's file
	removed  []string            // lines that are gone since the last version, each after the name of its file
}

const removedName = "removed"

// read reads the folder. A folder that is not there has no lines.
func (t tree) read() (files, error) {
	f := files{packages: map[string][]string{}}
	paths, err := filepath.Glob(t.path("api/*.txt"))
	if err != nil {
		return files{}, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return files{}, err
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			switch {
			case strings.HasPrefix(line, "<<<<<<<"), strings.HasPrefix(line, ">>>>>>>"):
				return files{}, fmt.Errorf("%s has two sides of a merge: take either whole, git checkout --ours api, then make api", path)
			case line != "" && !strings.HasPrefix(line, "#"):
				lines = append(lines, line)
			}
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".txt"); name == removedName {
			f.removed = lines
		} else {
			f.packages[name] = lines
		}
	}
	return f, nil
}

// removedBy returns the lines that are gone once the packages export other lines: the lines that were gone before, and
// lines of the files. A line that has come back is not gone.
func (f files) removedBy(is map[string][]string) []string {
	var gone []string
	for _, line := range f.removed {
		name, rest, _ := strings.Cut(line, ": ")
		if !slices.Contains(is[name], rest) {
			gone = append(gone, line)
		}
	}
	for name, lines := range f.packages {
		for _, line := range lines {
			if !slices.Contains(is[name], line) {
				gone = append(gone, name+": "+line)
			}
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

func (t tree) write(was, now files) error {
	if err := os.MkdirAll(t.path("api"), 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	for name := range was.packages {
		if now.packages[name] == nil {
			if err := os.Remove(t.path("api/" + name + ".txt")); err != nil {
				return err
			}
		}
	}
	for name, lines := range now.packages {
		if err := t.writeFile(name, "", lines); err != nil {
			return err
		}
	}
	if len(now.removed) > 0 {
		return t.writeFile(removedName, removedSays, now.removed)
	}
	if err := os.Remove(t.path("api/" + removedName + ".txt")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

const removedSays = `# Lines that are gone or changed since the last version. CHANGELOG.md names the symbol of each; a release deletes this file.
# A line of a symbol that no version had can be deleted by hand.
`

func (t tree) writeFile(name, head string, lines []string) error {
	return os.WriteFile(t.path("api/"+name+".txt"), []byte(head+strings.Join(lines, "\n")+"\n"), 0o644) //nolint:gosec // a file of the repository
}

// difference says which lines of the folder are not what the code says.
func difference(there, code files) error {
	var said []string
	names := slices.Concat(slices.Collect(maps.Keys(there.packages)), slices.Collect(maps.Keys(code.packages)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		said = append(said, compare("api/"+name+".txt", there.packages[name], code.packages[name])...)
	}
	said = append(said, compare("api/"+removedName+".txt", there.removed, code.removed)...)
	if len(said) == 0 {
		return nil
	}
	return fmt.Errorf("the folder api is not what the code says; make api renews it:\n%s", strings.Join(said, "\n"))
}

func compare(file string, there, code []string) (said []string) {
	for _, line := range there {
		if !slices.Contains(code, line) {
			said = append(said, "-"+file+": "+line)
		}
	}
	for _, line := range code {
		if !slices.Contains(there, line) {
			said = append(said, "+"+file+": "+line)
		}
	}
	if len(said) == 0 && !slices.Equal(there, code) {
		said = append(said, " "+file+": the order of its lines")
	}
	return said
}

// section returns the first section of a changelog, which is of the version that comes next.
func section(changelog string) string {
	_, after, _ := strings.Cut("\n"+changelog, "\n## ")
	first, _, _ := strings.Cut(after, "\n## ")
	return first
}

// unnamed says which lines are gone though the changelog does not name their symbols.
func unnamed(f files, changelog string) error {
	var said []string
	for _, line := range f.removed {
		name, symbol, _ := strings.Cut(line, ": ")
		names := accepted(name, symbol, f)
		if !slices.ContainsFunc(names, func(n string) bool { return speaksOf(changelog, n) }) {
			said = append(said, fmt.Sprintf("%s (%s)", names[0], line))
		}
	}
	if len(said) == 0 {
		return nil
	}
	return fmt.Errorf("programs may have to change for these, and the first section of CHANGELOG.md does not name them:\n%s", strings.Join(said, "\n"))
}

// accepted returns the names by which a changelog may speak of a line: the symbol as another package writes it; the
// type, if the line is of a member and the type is gone; the package, if that is gone. Symbols of package farsync stand
// without the name of their package.
func accepted(name, line string, f files) (names []string) {
	pkg := name[strings.LastIndexByte(name, '-')+1:]
	kind, member := symbolOf(line)
	qualify := func(symbol string) string {
		if pkg == "farsync" {
			return symbol // farsync.Mutex.TryDo speaks of Mutex.TryDo, too
		}
		return pkg + "." + symbol
	}
	if member == "" {
		names = append(names, qualify(kind))
	} else {
		names = append(names, qualify(kind+"."+member))
		if !slices.ContainsFunc(f.packages[name], func(line string) bool { is, _ := symbolOf(line); return is == kind }) {
			names = append(names, qualify(kind))
		}
	}
	if f.packages[name] == nil {
		names = append(names, pkg)
	}
	return names
}

var (
	methodLine = regexp.MustCompile(`^method \(\*?(\w+)\) (\w+)`)
	memberLine = regexp.MustCompile(`^type (\w+)(?:\[.*?\])? (?:struct, embedded |struct, |interface, )(?:\S*?(\w+)(?:$|[ (\[]))`)
	otherLine  = regexp.MustCompile(`^\w+ (\w+)`)
)

// symbolOf returns the name that a line is of, and the name of its method or field if it is of one.
func symbolOf(line string) (name, member string) {
	for _, form := range []*regexp.Regexp{methodLine, memberLine} {
		if m := form.FindStringSubmatch(line); m != nil {
			return m[1], m[2]
		}
	}
	if m := otherLine.FindStringSubmatch(line); m != nil {
		return m[1], ""
	}
	return line, ""
}

// speaksOf reports whether a text has a name as a word of its own.
func speaksOf(text, name string) bool {
	return regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(name) + `($|\W)`).MatchString(text)
}
