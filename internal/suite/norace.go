//go:build !race

package suite

// RaceDetector is whether this binary is watched by the race detector.
const RaceDetector = false
