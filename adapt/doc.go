// Package adapt fits farsync to libraries that ask their user for a lock or a leader: gocron and certmagic. It needs
// nothing of theirs, for their interfaces are met by their methods alone; docs/recipes.md shows how, and where the traps
// are.
package adapt

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// below returns the path of what a library calls by a name of its own: path, and a segment for the name. No two names
// share one. Of a name, letters, digits, dots and dashes stay as they are, all else becomes _xx in hexadecimal; one that
// is too long for a segment becomes its hash.
func below(path, name string) string {
	const most = 128
	var segment strings.Builder
	for _, b := range []byte(name) {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '-':
			segment.WriteByte(b)
		default:
			segment.WriteString("_" + hex.EncodeToString([]byte{b}))
		}
	}
	switch s := segment.String(); {
	case len(s) > most:
		sum := sha256.Sum256([]byte(name))
		return path + "/_sha256-" + hex.EncodeToString(sum[:])
	case strings.Trim(s, ".") == "": // nothing, or what would be a relative segment
		return path + "/_" + s
	default:
		return path + "/" + s
	}
}
