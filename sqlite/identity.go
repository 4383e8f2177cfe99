package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/farsync/farsync/internal/machine"
)

// An identity is what some paths name: the file, and what SQLite keeps beside it. Where the log is another, so is what
// the file says.
type identity [3]os.FileInfo

// suffixes of the paths. The first is that which the caller has given, with its links.
var suffixes = [3]string{"", "-wal", "-shm"}

// at returns the path of a part.
func at(part int, given, path string) string {
	if part == 0 {
		return given
	}
	return path + suffixes[part]
}

// identify returns the identity of a file that is open.
func identify(given, path string) (*identity, error) {
	var is identity
	for part := range is {
		info, err := os.Stat(at(part, given, path))
		if err != nil {
			return nil, err
		}
		_ = os.SameFile(info, info) // on Windows this reads what a later SameFile compares
		is[part] = info
	}
	return &is, nil
}

// compare returns an error in words if the paths name other files. A file that cannot be looked at now is not known to
// be another.
func (is *identity) compare(given, path string) error {
	for part, was := range is {
		name := at(part, given, path)
		info, err := os.Stat(name)
		switch {
		case err == nil && os.SameFile(was, info):
		case err == nil && part == 0:
			return fmt.Errorf("%s was replaced: the path names another file than the session is in", name)
		case err == nil:
			return fmt.Errorf("%s was replaced, which is a part of %s: other processes see an earlier state of it", name, given)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		case part == 0:
			return fmt.Errorf("%s was removed or renamed: the path names no file any more", name)
		default:
			return fmt.Errorf("%s was removed, which is a part of %s: other processes see an earlier state of it", name, given)
		}
	}
	return nil
}

// name is the same text in all processes of the machine, and another for every other file of this boot. It is empty
// where the system tells of no such thing.
func (is *identity) name() string {
	var all strings.Builder
	for _, info := range is {
		number := machine.Inode(info)
		if number == "" {
			return ""
		}
		all.WriteString(number + " ")
	}
	return all.String() + machine.Boot()
}

// resolved returns a path without links, also if the file is still to be made, where a link may lead to it.
func resolved(path string) string {
	for range 40 { // as many as the system follows
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		link, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		path = link
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// refuseLinks refuses a file that has several names: SQLite names the log after the name by which it opens the file, so
// there would be several logs, and the file would be damaged. A file that is mounted by itself, as into a container,
// has another name where it is mounted from.
func refuseLinks(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // it is still to be made; what else is wrong with it SQLite says
	}
	if n := machine.Links(info); n > 1 {
		return fmt.Errorf("%s has %d names (hard links), and its log lies beside one of them:"+
			" remove the other names, or make them symbolic links", path, n)
	}
	if machine.IsMountPoint(path) {
		return fmt.Errorf("%s is mounted by itself, without its log, which lies beside it where it is mounted from: mount its directory", path)
	}
	return nil
}

// refusePlanted refuses links in the place of the files that lie beside a file. They are written to, or cut to nothing,
// and the files that they lead to may be of other programs. SQLite follows no symbolic link there, and looks for no
// hard link.
func refusePlanted(path string) error {
	for _, suffix := range []string{"-gate", "-wal", "-shm", "-journal"} {
		info, err := os.Lstat(path + suffix)
		if err != nil {
			continue // it is still to be made
		}
		if err := machine.CheckPlain(path+suffix, info); err != nil {
			return err
		}
	}
	return nil
}
