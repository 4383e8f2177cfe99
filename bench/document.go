package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where the figures, the plots and the tables are, in the folder of documents.
const (
	pictures     = "performance"
	figuresFile  = pictures + "/figures.json"
	documentFile = "PERFORMANCE.md"
)

// The tables stand between these marks, by name.
const (
	markBegin = "<!-- figures: %s -->\n"
	markEnd   = "<!-- end of figures -->\n"
)

// tables returns what is put between the marks.
func (f figures) tables() map[string]string {
	all := map[string]string{"conditions": f.conditions(), "bodies": f.bodies(), "queues": f.queues()}
	for _, store := range stores {
		all[store] = f.contenders(store)
		all[store+" costs"] = f.costs(store)
	}
	return all
}

// document writes the figures into the documents: tables and plots.
func document(folder string, f figures) error {
	file := filepath.Join(folder, documentFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), f.tables())
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(filled), 0o644); err != nil {
		return err
	}
	for name, p := range f.plots() {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, pictures, name), []byte(p.svg()), 0o644))
	}
	return err
}

// fill puts tables between their marks.
func fill(text string, tables map[string]string) (string, error) {
	for name, table := range tables {
		begin := fmt.Sprintf(markBegin, name)
		before, rest, found := strings.Cut(text, begin)
		if !found {
			return "", fmt.Errorf("%s has no %q", documentFile, strings.TrimSpace(begin))
		}
		_, after, found := strings.Cut(rest, markEnd)
		if !found {
			return "", fmt.Errorf("%s has no %q after %q", documentFile, strings.TrimSpace(markEnd), strings.TrimSpace(begin))
		}
		text = before + begin + "\n" + table + "\n" + markEnd + after
	}
	return text, nil
}
