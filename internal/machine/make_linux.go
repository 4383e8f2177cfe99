package machine

import (
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Make makes an empty file or directory with just these rights, whatever the umask of the caller is, unless something is
// there. It appears with them in one step, so that no other process finds it without. Nothing is told: who goes on to open
// it sees what is wrong.
//
// Others may write to the directory around it. So the rights are those of what is open here, which is what was made.
func Make(path string, mode os.FileMode) {
	if _, err := os.Lstat(path); err == nil {
		return
	}
	next := path + "-new-" + rand.Text()
	if made(next, mode) != nil || unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE) != nil {
		_ = os.Remove(next) // another process was faster, or the file system cannot do it
	}
}

func made(path string, mode os.FileMode) error {
	flags := os.O_CREATE | os.O_EXCL | os.O_RDWR
	if mode.IsDir() {
		flags = unix.O_DIRECTORY | unix.O_NOFOLLOW
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	if mode.IsDir() {
		if _, err = file.Readdirnames(1); errors.Is(err, io.EOF) {
			err = nil
		} else {
			err = errors.Join(err, os.ErrExist) // it was exchanged for another
		}
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	return errors.Join(err, file.Close())
}
