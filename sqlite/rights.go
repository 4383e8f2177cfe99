package sqlite

import (
	"os"
	"path/filepath"

	"github.com/farsync/farsync/internal/machine"
)

// SQLite makes a file by the umask of the process that comes first, and for nobody else to write. So users who share a
// directory could not share the file. Who may only read it can keep all others from it, too: a lock to read is enough.
// So the file belongs to its user alone, or to the group if the directory says so.

// makeForAll makes the file, if it is not there, for those whom its directory is for, and what lies beside it for those
// who may write the file. SQLite makes the log likewise.
func makeForAll(path string) {
	mode := os.FileMode(0o600)
	dir, err := os.Stat(filepath.Dir(path))
	if err == nil && dir.Mode()&os.ModeSetgid != 0 && dir.Mode().Perm()&0o020 != 0 {
		mode = 0o660
	}
	machine.Make(path, mode)
	is, err := os.Stat(path)
	if err != nil {
		return
	}
	mode = is.Mode().Perm() & 0o666
	machine.Make(path+"-gate", mode)
	members := membersOf(is)
	if dir != nil {
		members |= dir.Mode() & os.ModeSetgid // as a directory in it has by itself
	}
	machine.Make(path+"-farsync", members)
}

// membersOf returns the rights of the directory of sockets: it is for those who may write the file.
func membersOf(file os.FileInfo) os.FileMode {
	members := os.ModeDir | 0o700
	for _, class := range []os.FileMode{0o070, 0o007} {
		if file.Mode().Perm()&class&0o022 != 0 {
			members |= class
		}
	}
	return members
}
