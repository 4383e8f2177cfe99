package sqlite

import (
	"errors"
	"strconv"
	"strings"

	"github.com/farsync/farsync/internal/machine"
)

// checkName refuses what is no path of a file that processes of this machine can share. SQLite would make a file of
// most of it all the same, another one than the caller means.
func checkName(file string) error {
	if strings.HasPrefix(file, "file:") || strings.Contains(file, ":memory:") {
		return errors.New("a URI, or :memory:, is not a file that processes share; give its path")
	}
	return machine.CheckFile(file)
}

// shown returns a file's name for a text. A URI may have a password.
func shown(file string) string {
	if strings.HasPrefix(file, "file:") {
		file, _, _ = strings.Cut(file, "?")
	}
	if file == "" || strings.ContainsRune(file, 0) {
		return strconv.Quote(file)
	}
	return file
}
