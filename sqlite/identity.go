package sqlite

import (
	"cmp"
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

// lookAt returns what the path of a part names. Links are followed to the file alone, as SQLite does.
func lookAt(part int, given, path string) (os.FileInfo, error) {
	if part == 0 {
		return os.Stat(given)
	}
	return os.Lstat(at(part, given, path))
}

// identify returns the identity of what the paths name now.
func identify(given, path string) (*identity, error) {
	var is identity
	for part := range is {
		info, err := lookAt(part, given, path)
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
		info, err := lookAt(part, given, path)
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

// refuse refuses a file that has several names: SQLite names the log after the name under which the file is opened, so
// there would be several logs, and the file would be damaged. A file that is mounted by itself, as into a container,
// has another name where it is mounted from. So has a log.
//
// It also refuses what others have put beside the file. SQLite writes to what is there, or cuts it to nothing, and it
// may be a link to a file of another program: SQLite follows no symbolic link there, and looks for no hard link. And
// what SQLite reads there counts as if it stood in the file, so nobody may write it who may not write the file.
func refuse(path string) error {
	file, err := os.Stat(path)
	if err == nil {
		if n := machine.Links(file); n > 1 {
			return fmt.Errorf("%s has %d names (hard links), and its log lies beside one of them:"+
				" remove the other names, or make them symbolic links", path, n)
		}
		if err := refuseMount(path, ", without its log, which lies beside it"); err != nil {
			return err
		}
	} // else it is still to be made; what else is wrong with it SQLite says
	for _, suffix := range []string{"-gate", "-wal", "-shm", "-journal"} {
		name := path + suffix
		is, err := os.Lstat(name)
		if err != nil {
			continue // it is still to be made
		}
		if err := machine.CheckPlain(name, is); err != nil {
			return err
		}
		if suffix == "-gate" || file == nil {
			continue // the gate decides nothing: whoever writes to it changes an order
		}
		if err := cmp.Or(refuseMount(name, ", without the file"), checkWriters(path, suffix, file, is)); err != nil {
			return err
		}
	}
	return nil
}

func refuseMount(path, without string) error {
	if !machine.IsMountPoint(path) {
		return nil
	}
	return fmt.Errorf("%s is mounted by itself%s where it is mounted from: mount its directory", path, without)
}

// checkWriters refuses a part that lies beside a file, if users may write the part who may not write the file. The part
// may belong to root, to the owner of the file, or to this user. If the group may write the file, the part may belong to
// a member of the group, and if the file has an access list, to anybody: the list is not read.
func checkWriters(path, suffix string, file, part os.FileInfo) error {
	writers := file.Mode().Perm() & 0o022
	if more := part.Mode().Perm() & 0o022 &^ writers; more != 0 {
		return fmt.Errorf("%s%s may be written by users who may not write %s: take the right away", path, suffix, path)
	}
	owner, group, known := machine.Owner(part)
	user, users, _ := machine.Owner(file)
	switch {
	case !known, owner == user, owner == 0, owner == os.Geteuid(), writers&0o002 != 0:
		return nil
	case writers != 0 && (group == users || machine.IsMember(owner, users) || machine.HasAccessList(path)):
		return nil
	default:
		return fmt.Errorf("%s%s belongs to another user than %s, who is not known to have the right to write that:"+
			" give it to the owner of the file, or remove it if no program of yours has made it", path, suffix, path)
	}
}
