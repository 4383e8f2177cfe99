package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/farsync/farsync/internal/suite/bubbles"
)

// TestBubblesAreGuarded: a test binary with bubbles dies now and then, with Go 1.26 and the race detector, unless it imports the package
// that says why.
func TestBubblesAreGuarded(t *testing.T) {
	lookAtSources(t)
	const guard = module + "/internal/suite/bubbles"
	guarded := map[string]bool{} // by folder
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, imported := range file.Imports {
			switch name, err := strconv.Unquote(imported.Path.Value); {
			case err != nil:
				return err
			case name == guard:
				guarded[folder] = true
			case name == "testing/synctest" && !guarded[folder]:
				guarded[folder] = false
			}
		}
		return nil
	}))
	delete(guarded, "internal/suite/bubbles") // the guard itself
	require.Greater(t, len(guarded), 10)
	for _, folder := range slices.Sorted(maps.Keys(guarded)) {
		require.Truef(t, guarded[folder], "%s has tests in bubbles: one of them has to import _ %q", folder, guard)
	}
}
