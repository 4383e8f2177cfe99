package recipe

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxPath    = 1024
	maxSegment = 128
)

// maxValue is the most bytes that the value of an entry may have. It is well below what the services take.
const maxValue = 64 << 10

// checkValue reports whether an entry may have this value.
func checkValue(value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("value of %d bytes, %d are allowed", len(value), maxValue)
	}
	return nil
}

// CheckPrefix reports whether a path can begin with prefix, by the grammar of CheckPath. The error wraps ErrPath.
func CheckPrefix(prefix string) error {
	err := CheckPath(prefix)
	if prefix == "" || err == nil || CheckPath(prefix+"a") == nil {
		return nil
	}
	return err
}

// CheckPath reports whether path names a queue, by one grammar for all stores: exactly one leading slash, then
// segments of 1 to 128 characters of [A-Za-z0-9._-] joined by single slashes, 1024 bytes at most. The segments "."
// and "..", the tree /zookeeper, and segments that begin with _c_ (the prefix of Curator's protected nodes) are
// refused. The error wraps ErrPath.
func CheckPath(path string) error {
	bad := func(why string) error {
		shown := path
		if len(shown) > 64 {
			shown = shown[:64] + "…"
		}
		return fmt.Errorf("%w %q: %s", ErrPath, shown, why)
	}
	if len(path) > maxPath {
		return bad(fmt.Sprintf("longer than %d bytes", maxPath))
	}
	if !strings.HasPrefix(path, "/") {
		return bad("no leading slash")
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch {
		case segment == "":
			return bad("empty segment")
		case len(segment) > maxSegment:
			return bad(fmt.Sprintf("segment longer than %d bytes", maxSegment))
		case segment == "." || segment == "..":
			return bad("relative segment")
		case strings.HasPrefix(segment, "_c_"):
			return bad("segment begins with the reserved _c_")
		}
		if i := strings.IndexFunc(segment, notInName); i >= 0 {
			_, n := utf8.DecodeRuneInString(segment[i:])
			return bad(fmt.Sprintf("character %q; allowed are A-Z a-z 0-9 . _ -", segment[i:i+n]))
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return bad("/zookeeper is reserved")
	}
	return nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
}
