//go:build !unix

package machine

import "os"

// Inode returns nothing here.
func Inode(os.FileInfo) string { return "" }

// Links returns 0: how many names a file has is not known here.
func Links(os.FileInfo) uint64 { return 0 }

// Owner is not known here.
func Owner(os.FileInfo) (user, group int, known bool) { return 0, 0, false }

// IsMember is not known here.
func IsMember(int, int) bool { return false }
