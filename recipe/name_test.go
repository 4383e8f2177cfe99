package recipe_test

import (
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync/recipe"
)

// FuzzCheckPath: a path that is accepted stays in the tree that it is put below, on every store, and can be printed.
func FuzzCheckPath(f *testing.F) {
	for _, seed := range []string{
		"/a", "/locks/billing", "/a/../b", "/./x", "//", "/a/", "a", "", "/_c_x", "/zookeeper/quota", "/a\x00b", "/a\u202eb", "/a%2fb", "/a\\b",
		"/" + strings.Repeat("x", 128), "/" + strings.Repeat("x", 129), strings.Repeat("/x", 512), strings.Repeat("/x", 513),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := recipe.CheckPath(text); err != nil {
			require.ErrorIs(t, err, recipe.ErrPath)
			require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "%q", err)
			require.Less(t, len(err.Error()), 1024)
			return
		}
		require.Equal(t, path.Clean("/below"+text), "/below"+text)
		require.True(t, strings.HasPrefix(path.Join("/below", text), "/below/"))
		require.LessOrEqual(t, len(text), 1024)
		require.False(t, strings.ContainsFunc(text, func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsPrint(c) || unicode.IsSpace(c) }))
	})
}
