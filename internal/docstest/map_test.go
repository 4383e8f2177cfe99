package docstest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMapNamesEveryFolder: the tables of CONTRIBUTING.md name each top-level folder, and each folder of internal/, once,
// and no other.
func TestMapNamesEveryFolder(t *testing.T) {
	_, places, found := strings.Cut(document(t, "CONTRIBUTING.md"), "\n## Where things are\n")
	require.True(t, found)
	top, inner, found := strings.Cut(places, "\n### internal\n")
	require.True(t, found)
	inner, _, found = strings.Cut(inner, "\n## ")
	require.True(t, found)
	ignored := strings.Fields(document(t, ".gitignore")) // what make builds is nobody's to look for
	for _, of := range []struct{ folder, table, name string }{
		{"../..", top, "`([a-z]+)/`"}, {"../../internal", inner, "`([a-z]+)`"},
	} {
		var named, there []string
		for line := range strings.Lines(of.table) {
			if cell, _, found := strings.Cut(strings.TrimPrefix(line, "| "), " |"); found {
				for _, name := range regexp.MustCompile(of.name).FindAllStringSubmatch(cell, -1) {
					named = append(named, name[1])
				}
			}
		}
		entries, err := os.ReadDir(of.folder)
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(ignored, "/"+e.Name()+"/") {
				there = append(there, e.Name())
			}
		}
		require.Greater(t, len(there), 15, "the test would not notice that it looks at nothing")
		require.ElementsMatch(t, there, named, "the map of %s", of.folder)
	}
}
