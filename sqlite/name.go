package sqlite

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// checkName refuses what is no path of a file that processes of this machine can share. SQLite would make a file of most of
// it all the same, another one than the caller means.
func checkName(file string) error {
	switch {
	case file == "":
		return errors.New("no file is named")
	case strings.HasPrefix(file, "file:"), strings.Contains(file, ":memory:"):
		return errors.New("a URI, or :memory:, is not a file that processes share; give its path")
	case strings.ContainsRune(file, 0):
		return errors.New("the name has a NUL, where SQLite takes it to end")
	case strings.HasPrefix(file, `\\`):
		return errors.New("a network path; the file has to be on a local disk")
	}
	if is, err := os.Stat(file); err == nil && is.IsDir() {
		return errors.New("a directory; give the path of a file in it")
	} else if err == nil && !is.Mode().IsRegular() {
		return errors.New("a device or a pipe; the locks need a file")
	}
	return nil // Open says what is missing
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
