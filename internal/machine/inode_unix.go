//go:build unix

package machine

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// Inode returns a text that is the same for one file under all its names, and another for every other file that exists
// at that time. It is empty where the system tells of no such thing.
func Inode(info os.FileInfo) string {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%x:%x", is.Dev, is.Ino)
	}
	return ""
}

// Links returns how many names a file has, 0 if that is not known.
func Links(info os.FileInfo) uint64 {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(is.Nlink) //nolint:unconvert // it is of other types elsewhere
	}
	return 0
}

// Owner returns the numbers of the user and of the group to whom a file belongs.
func Owner(info os.FileInfo) (user, group int, known bool) {
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(is.Uid), int(is.Gid), true
}

// IsMember reports whether the user with a number is known to be in a group.
func IsMember(number, group int) bool {
	is, err := user.LookupId(strconv.Itoa(number))
	if err != nil {
		return false
	}
	groups, err := is.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(group))
}
