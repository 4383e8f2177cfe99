//go:build !unix

package main

import (
	"io"
	"os"
)

// isTerminal reports whether a file is a terminal, as far as its mode tells.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0
}

// screen returns zeros: lines are written here, not a table that is drawn anew.
func screen(io.Writer) (columns, rows int) { return 0, 0 }
