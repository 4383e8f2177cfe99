//go:build unix

package machine

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Rights of a user: to read and write a file, to make files in a directory and enter it, and to enter it.
const (
	ReadWrite = unix.R_OK | unix.W_OK
	MakeIn    = unix.W_OK | unix.X_OK
	Enter     = unix.X_OK
)

// Access returns nil if the user of this process has a right. It opens nothing: to close a file would give back this
// process's locks on it.
func Access(path string, right uint32) error {
	if err := unix.Access(path, right); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}
