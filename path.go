package farsync

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// PathOf returns the path of what keys name below base: base, and one valid segment for each key, whatever that is. Use
// it where a part of a path comes from data, such as the name of a customer or of a file:
//
//	farsync.NewMutex(store, farsync.PathOf("/customers", name))
//
// No two keys share a segment, and no key leads out of base: with as many keys, two calls return one path only if their
// bases and all their keys are the same. PathOf(PathOf(base, a), b) is PathOf(base, a, b).
//
// Letters, digits, dots and dashes of a key stay as they are, and every other byte becomes an underscore and two
// hexadecimal digits. A key that is too long for a segment becomes its SHA-256. The forms never change, as processes of
// different versions have to agree.
//
// Base is a path as NewMutex takes it, or "/" for keys at the top. Where it is neither, or the path becomes longer than
// 1024 bytes, the result is no valid path: every call with it fails with ErrPath.
func PathOf(base string, keys ...string) string {
	switch {
	case base == "" || len(keys) == 0:
		return base // an empty base is a setting that is missing, not the top
	case base == "/":
		base = ""
	}
	var path strings.Builder
	path.WriteString(base)
	for _, key := range keys {
		s := segment(key)
		if path.Len() == 0 && s == "zookeeper" {
			s = "_" + s // that tree is reserved
		}
		path.WriteString("/" + s)
	}
	return path.String()
}

// segment returns the segment of a key. The bytes of a key give "_" only before two hexadecimal digits, so a segment is
// told from another key's where "_" stands before something else: a dot, the end, "sha256-" or "zookeeper".
func segment(key string) string {
	const most = 128
	var s strings.Builder
	if strings.Trim(key, ".") == "" { // nothing, or what would be a relative segment
		s.WriteByte('_')
	}
	for _, b := range []byte(key) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '-':
			s.WriteByte(b)
		default:
			s.WriteString("_" + hex.EncodeToString([]byte{b}))
		}
	}
	if s.Len() > most {
		sum := sha256.Sum256([]byte(key))
		return "_sha256-" + hex.EncodeToString(sum[:])
	}
	return s.String()
}
