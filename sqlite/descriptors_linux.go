package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// An inode is a file, by whatever name.
type inode struct{ device, number uint64 }

func inodeOf(info os.FileInfo) (is inode) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		is = inode{s.Dev, s.Ino}
	}
	return is
}

// descriptors returns the plain files that this process has open, by the numbers of their descriptors. It is nil
// where /proc does not tell. Nothing is opened for that but the list: to close a file takes SQLite's locks away.
func descriptors() (map[int]inode, error) {
	list, err := os.Open("/proc/self/fd")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err != nil {
		return nil, err // there may be no descriptor left
	}
	defer func() { _ = list.Close() }()
	names, err := list.Readdirnames(-1)
	if err != nil || len(names) == 0 { // the list itself is not in it
		return nil, nil //nolint:nilnil // as the comment says
	}
	all := map[int]inode{}
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			if is, plain := plainAt(n); plain {
				all[n] = is
			}
		}
	}
	return all, nil
}

// plainAt returns the plain file that a descriptor has open. The program may have files open whose file system does not
// answer, as where a server is away. So no file system is asked, unless the kernel cannot do without.
func plainAt(descriptor int) (is inode, plain bool) {
	var now unix.Statx_t
	err := unix.Statx(descriptor, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO, &now)
	if err == nil {
		return inode{unix.Mkdev(now.Dev_major, now.Dev_minor), now.Ino}, now.Mode&unix.S_IFMT == unix.S_IFREG
	}
	var old unix.Stat_t
	if errors.Is(err, unix.EBADF) || unix.Fstat(descriptor, &old) != nil {
		return inode{}, false
	}
	is = inode{uint64(old.Dev), old.Ino} //nolint:unconvert // it is of other types elsewhere
	return is, old.Mode&unix.S_IFMT == unix.S_IFREG
}

// openSince reports whether these files are what SQLite has opened for a connection since before. It opens the log
// once for each connection, and the index once for all connections of the process.
//
// It opens the file for each, or takes a descriptor that a connection has left, which it could not close without
// taking the locks of other connections away. Then no other database may have been opened.
func (is *identity) openSince(before map[int]inode) (bool, error) {
	now, err := descriptors()
	if err != nil {
		return false, err
	}
	file, log, index := inodeOf(is[0]), inodeOf(is[1]), inodeOf(is[2])
	var has [3]bool  // it is open
	var here [3]bool // since before
	var others []int // opened since before
	for n, open := range now {
		since := before[n] != open
		for part, what := range []inode{file, log, index} {
			has[part] = has[part] || open == what
			here[part] = here[part] || open == what && since
		}
		if since && open != file && open != log && open != index {
			others = append(others, n)
		}
	}
	return here[1] && has[2] && (here[0] || has[0] && !slices.ContainsFunc(others, isDatabase)), nil
}

// isDatabase reports whether an open file begins as a database of SQLite does. A file that cannot be read is none of SQLite's.
func isDatabase(descriptor int) bool {
	const first = "SQLite format 3\x00"
	var is [len(first)]byte
	_, err := unix.Pread(descriptor, is[:], 0)
	return err == nil && string(is[:]) == first
}
