//go:build !linux

package sqlite

import (
	"os"
	"path/filepath"
	"time"
)

// clock returns the time by which sessions end, in microseconds: the time of day, which may be set.
func clock() int64 { return time.Now().UnixMicro() }

// boot is always the same, for the time of day continues over a boot.
func boot() string { return "time of day" }

// checkLocal knows no file systems here.
func checkLocal(string) error { return nil }

// reach returns the path by which sockets in a directory are bound and reached. If it is too long, none are.
func reach(dir *os.File, name string) string { return filepath.Join(dir.Name(), name) }

// nap is a sleep of some microseconds.
func nap(d time.Duration) { <-time.After(d) }
