//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/farsync/farsync"
	"github.com/farsync/farsync/examples/internal/program"
)

// A stage is where a worker meets the show.
type stage struct {
	*program.Stage
	stopAt int
	adds   int // begun so far
}

// awaitStart holds the workers back until all are there, so that they are at it together.
func (s *stage) awaitStart(ctx context.Context) error {
	s.Tell(report{Event: ready})
	return s.Await(ctx)
}

// between is called between each read and write. At the add that was chosen, it says so and waits: to be killed, or to
// be stopped and told to go on.
func (s *stage) between(ctx context.Context, token farsync.Token, read int) {
	s.adds++
	if s.adds != s.stopAt {
		return
	}
	s.Tell(report{Event: holding, Token: token, Read: read})
	_ = s.Await(ctx) // if the show is over, the write fails too
}

// reportLate tells of a refused request, and whether the lease knew that it was lost. It must have known: a lease ends
// before the lock can be another's.
func (s *stage) reportLate(err error) {
	s.Tell(report{Event: late, Lost: errors.Is(err, farsync.ErrLost)})
}
