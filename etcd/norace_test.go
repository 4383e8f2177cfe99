//go:build !race

package etcd_test

const raceDetector = false
