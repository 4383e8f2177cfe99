package peers

import (
	"fmt"
	"os"
)

// reach returns the path by which a socket in an open directory is bound and reached. It is short, as the kernel wants
// it.
func reach(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}
