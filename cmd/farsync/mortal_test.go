//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// roles are the processes of mortal: COMMAND, its child, its grandchild, one in a session of its own, and a daemon, which has
// lost its parent, too.
var roles = []string{"command", "child", "grandchild", "session", "daemon"}

// mortal returns the path of testdata/mortal, which is small and starts at once, as this test does not.
var mortal = sync.OnceValues(func() (string, error) { return build("mortal", "./testdata/mortal") })

// A life is what a process of mortal has written.
type life struct {
	pid, parent int
	last        time.Duration // by the clock of package guard
}

// lives returns what all of them have written, or nil while one has not begun.
func lives(dir string) (list []life) {
	for _, role := range roles {
		text, err := os.ReadFile(filepath.Join(dir, role))
		if err != nil || len(text) < 24 {
			return nil
		}
		list = append(list, life{
			int(binary.LittleEndian.Uint64(text)), int(binary.LittleEndian.Uint64(text[8:])),
			time.Duration(binary.LittleEndian.Uint64(text[16:])),
		})
	}
	return list
}

// born waits until all of them live.
func born(t testing.TB, dir string) []life {
	t.Helper()
	until(t, "COMMAND and its descendants live", func() bool { return lives(dir) != nil })
	return lives(dir)
}

// dead reports whether a process has ended, also if nothing has reaped it.
func dead(pid int) bool {
	s := state(pid)
	return s == 'Z' || s == 'X'
}

// state is that of a process as the kernel shows it: T if it is stopped.
func state(pid int) byte {
	fields := stat(pid)
	if fields == nil {
		return 'X'
	}
	return fields[0][0]
}

// stat returns what the kernel says of a process behind its name, beginning with its state and its parent; nil if there is no such process.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// end kills what a failed test leaves.
func end(t testing.TB, dir string) {
	t.Cleanup(func() {
		for _, l := range lives(dir) {
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", l.pid)); err == nil && strings.Contains(string(text), "mortal") {
				require.NoError(t, syscall.Kill(l.pid, syscall.SIGKILL))
			}
		}
	})
}
