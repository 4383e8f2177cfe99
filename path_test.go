package farsync_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/recipe"
)

func TestPathOfAnyKeyIsAPath(t *testing.T) {
	for _, row := range []struct {
		base string
		keys []string
		path string
	}{
		{"/customers", nil, "/customers"},
		{"/customers", []string{"ada-1.x"}, "/customers/ada-1.x"},
		{"/customers", []string{"a/b", "c"}, "/customers/a_2fb/c"},
		{"/customers", []string{""}, "/customers/_"},
		{"/customers", []string{"."}, "/customers/_."},
		{"/customers", []string{"..", ".."}, "/customers/_../_.."},
		{"/customers", []string{"_"}, "/customers/_5f"},
		{"/customers", []string{"_c_x"}, "/customers/_5fc_5fx"},
		{"/customers", []string{"ü\x00"}, "/customers/_c3_bc_00"},
		{"/customers", []string{strings.Repeat("x", 128)}, "/customers/" + strings.Repeat("x", 128)},
		{"/customers", []string{strings.Repeat("x", 129)}, "/customers/_sha256-0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd"},
		{"/customers", []string{"zookeeper"}, "/customers/zookeeper"},
		{"/", []string{"zookeeper", "zookeeper"}, "/_zookeeper/zookeeper"},
		{"/", []string{"a"}, "/a"},
	} {
		path := farsync.PathOf(row.base, row.keys...)
		require.Equal(t, row.path, path)
		require.NoError(t, recipe.CheckPath(path))
	}
	dots := farsync.PathOf("/customers", strings.Repeat(".", 128))
	require.NoError(t, recipe.CheckPath(dots))
	require.NotEqual(t, dots, farsync.PathOf("/customers", strings.Repeat(".", 129)))
	for _, base := range []string{"", "a", "/a/", "//", "/a//b", "/..", "/zookeeper", "/_c_a", strings.Repeat("/abcdefg", 128)} {
		require.ErrorIs(t, recipe.CheckPath(farsync.PathOf(base, "key")), farsync.ErrPath, base)
		require.ErrorIs(t, recipe.CheckPath(farsync.PathOf(base, "key", "and another")), farsync.ErrPath, base)
	}
}

// FuzzPathOf: two calls give one path only if they are given the same, or one of them has as its base what the other makes of its
// first keys.
func FuzzPathOf(f *testing.F) {
	for _, key := range []string{"", "a", ".", "..", "_", "_.", "a/b", "a_2fb", "_2f", "_c_x", "zookeeper", "_zookeeper", "ü", "\xff",
		strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat(".", 127), strings.Repeat(".", 128), strings.Repeat("/", 43),
		"_sha256-0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd"} {
		f.Add("/", key, "a", "/a", key, "")
		f.Add("/a", key, "b", "/a/b", "b", key)
		f.Add("", key, "b", key, "b", key)
	}
	f.Fuzz(func(t *testing.T, base, key, second, otherBase, otherKey, otherSecond string) {
		one := made{base, []string{key, second}}
		other := made{otherBase, []string{otherKey, otherSecond}}
		calls := []made{one, other, {base, one.keys[:1]}, {otherBase, other.keys[:1]}, {base, nil}, {otherBase, nil}}
		for _, call := range calls {
			path := farsync.PathOf(call.base, call.keys...)
			valid := recipe.CheckPath(call.base) == nil || call.base == "/" && len(call.keys) > 0
			if recipe.CheckPath(path) == nil {
				require.True(t, valid, "%q of %q", path, call)
			} else if valid {
				require.Greater(t, len(path), 1024, call)
			}
			for _, beside := range calls {
				if valid && farsync.PathOf(beside.base, beside.keys...) == path {
					same(t, call, beside)
				}
			}
		}
		require.Equal(t, farsync.PathOf(base, key, second), farsync.PathOf(farsync.PathOf(base, key), second))
	})
}

// made is a call of PathOf.
type made struct {
	base string
	keys []string
}

// same requires that two calls with one path name the same.
func same(t *testing.T, a, b made) {
	t.Helper()
	if len(a.keys) > len(b.keys) {
		a, b = b, a
	}
	n := len(b.keys) - len(a.keys) // keys that the base of a has in it
	require.Equal(t, farsync.PathOf(b.base, b.keys[:n]...), a.base)
	require.True(t, slices.Equal(b.keys[n:], a.keys), "%q and %q have one path", a, b)
}
