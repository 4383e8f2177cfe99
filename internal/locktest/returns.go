package locktest

import (
	"errors"
	"testing"
	"time"
)

var errHangs = errors.New("it has not returned")

// Returns calls f, which has to return although no server answers, and logs how long it took. A call that has not returned
// after hang fails the test.
func Returns(t testing.TB, hang time.Duration, name string, f func() error) error {
	t.Helper()
	begun, done := time.Now(), make(chan error, 1)
	go func() { done <- f() }() // joined, or the test fails
	select {
	case err := <-done:
		t.Logf("%s returns after %v: %v", name, time.Since(begun).Round(time.Millisecond), err)
		return err
	case <-time.After(hang):
		t.Errorf("%s has not returned", name)
		return errHangs
	}
}
