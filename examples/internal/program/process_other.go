//go:build unix && !linux

package program

import "syscall"

// dieWithParent can do nothing here: workers leave when their stdin ends, or one that is stopped, when it goes on.
func dieWithParent() *syscall.SysProcAttr { return nil }
