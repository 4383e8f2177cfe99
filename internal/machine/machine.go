// Package machine is what the processes of one machine have in common: a clock that cannot be set, the boot that it counts
// from, and files that no other machine writes.
package machine

import (
	"errors"
	"os"
	"strings"
)

// CheckFile refuses what is no path of a file that processes of this machine can share. A file that does not exist is none of
// that: it can be made.
func CheckFile(file string) error {
	switch {
	case file == "":
		return errors.New("no file is named")
	case strings.ContainsRune(file, 0):
		return errors.New("the name has a NUL, where the system takes it to end")
	case strings.HasPrefix(file, `\\`):
		return errors.New("a network path; the file has to be on a local disk")
	case os.IsPathSeparator(file[len(file)-1]):
		return errors.New("a directory; give the path of a file in it")
	}
	if is, err := os.Stat(file); err == nil && is.IsDir() {
		return errors.New("a directory; give the path of a file in it")
	} else if err == nil && !is.Mode().IsRegular() {
		return errors.New("a device or a pipe; the locks need a file")
	}
	return nil
}
