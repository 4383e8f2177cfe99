//go:build unix && !linux

package program

import "syscall"

// dieWithParent can do nothing here: a worker leaves when its stdin ends, and a worker that is stopped, when it goes
// on.
func dieWithParent() *syscall.SysProcAttr { return nil }
