package locktest

import (
	"time"

	"go.uber.org/goleak"
)

// Leaks returns which goroutines stay, or nil. A goroutine that has only to be run once more to end is waited for, as is all that must happen.
func Leaks(options ...goleak.Option) error {
	begun, err := time.Now(), goleak.Find(options...)
	for err != nil && time.Since(begun) < Soon {
		err = goleak.Find(options...) // which waits between its looks
	}
	return err
}
