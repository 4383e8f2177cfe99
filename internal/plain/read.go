package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// read returns the texts below a folder, in the order of their names.
func read(root string) ([]*text, error) {
	texts := map[string]*text{}
	of := func(name string) *text {
		if texts[name] == nil {
			texts[name] = &text{name: name}
		}
		return texts[name]
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		folder := filepath.ToSlash(filepath.Dir(name))
		switch {
		case d.IsDir():
			if name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "docs/adr" || name == "bin") {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			return of(folder).readComments(path, name)
		case strings.HasSuffix(name, ".md") && (folder == "." || strings.HasPrefix(name, "docs/")):
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			of(name).readDocument(name, string(content))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []*text
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, texts[name])
	}
	return all, nil
}

func (t *text) readComments(path, name string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, group := range file.Comments {
		var paragraph paragraph
		for _, comment := range group.List {
			first := positions.Position(comment.Pos()).Line
			body := strings.TrimSuffix(strings.TrimPrefix(comment.Text, "/*"), "*/")
			for i, line := range strings.Split(body, "\n") {
				line, isLine := strings.CutPrefix(line, "//")
				switch {
				case isLine && directive.MatchString(line): // go:embed, nolint
					paragraph.end(t, name)
				case isLine && strings.HasPrefix(line, "\t"), strings.HasPrefix(line, " #"), strings.TrimSpace(line) == "":
					paragraph.end(t, name) // code, a heading, the end of a paragraph
				case isLine && strings.HasPrefix(line, "   "): // an item of a list, or a part of one
					if item.MatchString(line) {
						paragraph.end(t, name)
					}
					paragraph.add(first+i, item.ReplaceAllString(line, ""))
				default:
					paragraph.add(first+i, line)
				}
			}
		}
		paragraph.end(t, name)
	}
	return nil
}

var (
	directive = regexp.MustCompile(`^[a-z]+(:|$)`)
	item      = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	quoted    = regexp.MustCompile("`[^`]*`")
	link      = regexp.MustCompile(`\]\([^)\s]*\)|\]\[[^\]]*\]`)
	target    = regexp.MustCompile(`^\[[^\]]+\]: `)
)

// readDocument counts a document without its code, its headings and the addresses of its links. A cell of a table is a
// paragraph.
func (t *text) readDocument(name, content string) {
	var paragraph paragraph
	fenced := false
	for i, line := range strings.Split(content, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			paragraph.end(t, name)
			continue
		}
		if fenced {
			continue
		}
		line = link.ReplaceAllString(quoted.ReplaceAllString(line, "code"), "]")
		line = strings.ReplaceAll(line, "**", "")
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "<!--"), target.MatchString(line):
			paragraph.end(t, name)
		case strings.HasPrefix(line, "|"):
			paragraph.end(t, name)
			for cell := range strings.SplitSeq(line, "|") {
				paragraph.add(i+1, cell)
				paragraph.end(t, name)
			}
		case item.MatchString(line):
			paragraph.end(t, name)
			paragraph.add(i+1, item.ReplaceAllString(line, ""))
		default:
			paragraph.add(i+1, line)
		}
	}
	paragraph.end(t, name)
}

// A paragraph collects its lines.
type paragraph struct {
	first int
	lines []string
}

func (p *paragraph) add(line int, text string) {
	if len(p.lines) == 0 {
		p.first = line
	}
	p.lines = append(p.lines, strings.TrimSpace(text))
}

func (p *paragraph) end(t *text, file string) {
	if len(p.lines) > 0 {
		t.add(file, p.first, p.lines)
	}
	p.lines = nil
}
