//go:build unix

package main

import "slices"

// A crowd is how many clients there are, what they have to share, and how fast things go wrong for them.
type crowd struct {
	Processes int
	Machines  int // Stores of a process, each behind a wire of its own
	Clients   int // goroutines of a Store
	Paths     int // queues in use at the same time, of all primitives together
	// Fast: single connections break several times a second, and servers as soon as all is well again.
	Fast bool
}

// few is for a moment: clients meet on each of few paths, and one thing at a time goes wrong for each.
var few = crowd{Processes: 4, Machines: 2, Clients: 2, Paths: 6}

// many returns the crowd that makes as many grants and meets as many faults as a store and two cores bear. With many
// paths, a lock that is held for long, or by a stopped process, keeps few clients waiting. A server of a database
// bounds how many Stores there are by its connections, and SQLite by its single file.
func many(store string) crowd {
	c := crowd{Processes: 8, Machines: 4, Clients: 4, Paths: 160, Fast: true}
	switch {
	case store == onSQLite:
		c.Processes, c.Machines, c.Paths = 6, 1, 40
	case slices.Contains([]string{onPostgres, onMySQL, onQuorum}, store):
		c.Processes, c.Machines, c.Paths = 6, 2, 60
	}
	return c
}

// clients returns how many there are.
func (c crowd) clients() int { return c.Processes * c.Machines * c.Clients }
