//go:build unix

package embedtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrNoFaketime says that no library is found that can set the clock of a server apart from the clock of the machine.
var ErrNoFaketime = errors.New("farsync: no libfaketime found: apt-get install libfaketime")

// A clock is the clock of one server, apart from the machine's.
type clock struct {
	file    string // with its offset
	library string
}

// newClock returns a clock with a file in dir, which is the machine's until it is set. It is for a server that uses the
// libraries under root.
func newClock(dir, root string) (*clock, error) {
	libraries, err := filepath.Glob(filepath.Join(root, "usr", "lib", "*", "faketime", "libfaketimeMT.so.1"))
	if err != nil || len(libraries) == 0 {
		return nil, ErrNoFaketime
	}
	c := &clock{file: filepath.Join(dir, "clock"), library: libraries[0]}
	return c, c.step(0)
}

// environment returns what a server with this clock finds in its environment.
func (c *clock) environment() []string {
	// The allocator that Redis is linked with asks for the time before the library is ready to tell it; libc's does not.
	return append(os.Environ(), "LD_PRELOAD="+c.library+" libc.so.6", "FAKETIME_TIMESTAMP_FILE="+c.file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
}

func (c *clock) step(by time.Duration) error {
	// By a rename, for the server may be reading. It may run as another user.
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", by.Seconds()), 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	return os.Rename(next, c.file)
}
