package farsync

import "github.com/farsync/farsync/driver"

// A Kind says what a call asks for, and what a [Participant] holds or waits for.
type Kind uint8

// The kinds of leases.
const (
	// KindForeign is what a client of another program has asked for, of a kind that cannot be told. It counts as
	// exclusive.
	KindForeign Kind = iota
	// KindExclusive is a mutex.
	KindExclusive
	// KindWrite is the exclusive side of an RWMutex.
	KindWrite
	// KindRead is the shared side of an RWMutex.
	KindRead
	// KindPermit is a number of a semaphore's units.
	KindPermit
	// KindCandidate stands for election.
	KindCandidate
)

// String returns the kind's name in lower case: "exclusive", "write", "read", "permit", "candidate" or "foreign".
func (k Kind) String() string { return driver.Kind(k).String() }
