package sqlite

import (
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
func descriptors() map[int]inode {
	list, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil
	}
	defer func() { _ = list.Close() }()
	names, err := list.Readdirnames(-1)
	if err != nil {
		return nil
	}
	all := map[int]inode{}
	for _, name := range names {
		var is unix.Stat_t
		if n, err := strconv.Atoi(name); err == nil && unix.Fstat(n, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFREG {
			all[n] = inode{uint64(is.Dev), is.Ino} //nolint:unconvert // it is of other types elsewhere
		}
	}
	return all
}

// openSince reports whether these files are what SQLite has opened for a connection since before. It opens the log
// once for each connection, and the index once for all connections of the process.
//
// It opens the file for each, or takes a descriptor that a connection has left, which it could not close without
// taking the locks of other connections away. Then no other database may have been opened.
func (is *identity) openSince(before map[int]inode) bool {
	file, log, index := inodeOf(is[0]), inodeOf(is[1]), inodeOf(is[2])
	var has [3]bool  // it is open
	var here [3]bool // since before
	var others []int // opened since before
	for n, open := range descriptors() {
		since := before[n] != open
		for part, what := range []inode{file, log, index} {
			has[part] = has[part] || open == what
			here[part] = here[part] || open == what && since
		}
		if since && open != file && open != log && open != index {
			others = append(others, n)
		}
	}
	return here[1] && has[2] && (here[0] || has[0] && !slices.ContainsFunc(others, isDatabase))
}

// isDatabase reports whether an open file begins as those of SQLite. A file that cannot be read is none of SQLite's.
func isDatabase(descriptor int) bool {
	const first = "SQLite format 3\x00"
	var is [len(first)]byte
	_, err := unix.Pread(descriptor, is[:], 0)
	return err == nil && string(is[:]) == first
}
