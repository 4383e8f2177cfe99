//go:build !linux

package machine

import (
	"os"
	"time"
)

// Clock returns the time of day in microseconds, which may be set.
func Clock() int64 { return time.Now().UnixMicro() }

// Boot is always the same, for the time of day continues over a boot.
func Boot() string { return "time of day" }

// CheckLocal knows no file systems here.
func CheckLocal(string) error { return nil }

// IsMountPoint is not known here.
func IsMountPoint(string) bool { return false }

// HasAccessList is not known here.
func HasAccessList(string) bool { return false }

// Make leaves it to others to make a file here.
func Make(string, os.FileMode) {}

// Nap sleeps for a millisecond or so.
func Nap(d time.Duration) { <-time.After(d) }
