package redis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"
)

var (
	//go:embed lib.lua
	libFile string
	//go:embed scripts.lua
	scriptsFile string
)

// An edition is the scripts for one run of a server, by name, and the ID of that run.
type edition struct {
	run     string
	scripts map[string]script
}

// A script is what EVALSHA names by its hash.
type script struct{ text, hash string }

// newEdition returns the scripts of a namespace for one run of a server. Their hashes are of this namespace and this run
// alone. A client gives them to a server after it has asked for the run ID on the same connection, and the server neither
// saves nor replicates them. So a server that knows a script is the one whose ID the script has.
func newEdition(namespace, run string) *edition {
	e := &edition{run, map[string]script{}}
	libs := sections(libFile, "-- lib: ")
	for _, of := range sections(scriptsFile, "-- name: ") {
		name, uses, _ := strings.Cut(of.title, " uses ")
		var text strings.Builder
		text.WriteString("-- farsync " + namespace + "\nlocal run = '" + run + "'\n")
		for _, lib := range libs {
			if slices.Contains(strings.Fields(uses), lib.title) {
				text.WriteString(lib.text)
			}
		}
		text.WriteString(of.text)
		hash := sha1.Sum([]byte(text.String()))
		e.scripts[name] = script{text.String(), hex.EncodeToString(hash[:])}
	}
	return e
}

type section struct{ title, text string }

// sections returns the parts of a file that begin with a title.
func sections(file, mark string) []section {
	var list []section
	for _, part := range strings.Split(file, mark)[1:] {
		title, text, _ := strings.Cut(part, "\n")
		list = append(list, section{title, text})
	}
	return list
}
