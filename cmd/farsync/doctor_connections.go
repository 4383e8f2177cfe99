package main

import (
	"context"
	"fmt"

	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// connections reckons what the Stores in the database take of the connections that its server has.
func (d *doctor) connections(ctx context.Context) {
	if d.location.Scheme != "postgres" && d.location.Scheme != "mysql" {
		return
	}
	switch c, err := d.location.Connections(ctx); {
	case location.NoRoom(err):
		d.wrong("connections", "there is no room for another, which is to count them: %s", words(err))
	case err != nil:
		d.well("connections", "not looked at: %s", words(err)) // what is wrong with the service, others find
	default:
		d.add(reckon(c))
	}
}

// reckon returns the finding about connections that were counted while this Store was open.
func reckon(c location.Connections) findingJSON {
	stores, left := max(c.Stores-1, 0), max(c.Most-c.Used, 0)
	text := fmt.Sprintf("%d of %d are in use (%s). A Store takes %d at least, and %d where there is room: the server has room for %d Stores in all, "+
		"or for %d at %[5]d each. %[8]d are open", c.Used, c.Most, c.Bound, c.Least, c.Each, c.Most/c.Least, c.Most/c.Each, stores)
	switch {
	case c.Least*stores > c.Most:
		return findingJSON{"connections", false, fmt.Sprintf("%s, which take %d: some of them wait until others have gone. "+
			"Raise %s, or have fewer Stores", text, c.Least*stores, c.Bound)}
	case left < c.Least:
		return findingJSON{"connections", false, fmt.Sprintf("%s, and there is no room for another. Raise %s, or have other programs take less",
			text, c.Bound)}
	default:
		return findingJSON{"connections", true, fmt.Sprintf("%s, and there is room for %d more", text, left/c.Least)}
	}
}
