package recipe

import "github.com/farsync/farsync/driver"

// Guarding returns the entries by which a store guards what is written under a lease: one entry at least, for a
// transaction without a guard is never the answer.
func Guarding(lease interface {
	GuardEntries() ([]driver.Entry, error)
}) ([]driver.Entry, error) {
	held, err := lease.GuardEntries()
	if err == nil && len(held) == 0 {
		return nil, ErrLost
	}
	return held, err
}
