package main

import (
	"context"
	"errors"
	"time"

	"github.com/farsync/farsync/cmd/farsync/internal/location"
)

// oldSnapshot is for how long a transaction may be open before doctor names it. The rows that a minute's acquisitions
// leave are no matter.
const oldSnapshot = time.Minute

// snapshots names the transactions that have been open for so long in the database: while one is, each acquisition
// takes longer than the acquisition before.
func (d *doctor) snapshots(ctx context.Context, older time.Duration) {
	if d.location.Scheme != "postgres" && d.location.Scheme != "mysql" {
		return
	}
	list, err := d.location.Snapshots(ctx, older)
	switch {
	case errors.Is(err, location.ErrHidden):
		d.well("snapshots", "not looked at: the user needs the right PROCESS to see which transactions are open")
	case err != nil:
		d.well("snapshots", "not looked at: %s", words(err)) // the other checks find what is wrong with the service
	case len(list) == 0:
		d.well("snapshots", "no transaction has been open for longer than %v", older)
	}
	for _, s := range list {
		what := "a transaction has been open for " + s.Age.Round(time.Second).String()
		if s.Age < 0 {
			what = "a snapshot is thousands of transactions old"
		}
		d.wrong("snapshots", "%s: %s. The database keeps all rows that were changed since, and locks take longer and longer. "+
			"End it if nothing needs it: %s", what, s.Who, s.End)
	}
}
