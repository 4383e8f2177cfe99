//go:build race

package etcd_test

// The race detector slows the servers down as well, for they run in the same executable.
const raceDetector = true
