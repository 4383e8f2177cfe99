package machine

import (
	"fmt"
	"os"
)

// CheckPlain returns an error in words if a file, as Lstat sees it, is not a regular file that has one name. Whoever may write
// to a directory may make a link in it, to a file that another user may write, and have that user's program write there.
func CheckPlain(path string, is os.FileInfo) error {
	switch {
	case !is.Mode().IsRegular():
		return fmt.Errorf("%s is a link, or otherwise not a regular file: remove it", path)
	case Links(is) > 1:
		return fmt.Errorf("%s has %d names (hard links): remove it", path, Links(is))
	}
	return nil
}
