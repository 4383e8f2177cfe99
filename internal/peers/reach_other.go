//go:build !linux

package peers

import (
	"os"
	"path/filepath"
)

// reach returns the path by which a socket in a directory is bound and reached. If it is too long, there is none.
func reach(dir *os.File, name string) string { return filepath.Join(dir.Name(), name) }
