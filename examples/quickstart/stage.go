//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/farsync/farsync"
)

// A stage is where a worker meets the show: it reports on stdout, and waits for its cues, lines on stdin.
type stage struct {
	cues   <-chan struct{}
	out    *json.Encoder
	stopAt int
	adds   int // begun so far
}

var errShowOver = errors.New("the show is over")

// newStage returns a stage, and a context that is done when the show ends, for whatever reason: then stdin does.
func newStage(in io.Reader, out io.Writer, stopAt int) (*stage, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cues := make(chan struct{})
	go func() { // ends with stdin or with the process
		for lines := bufio.NewScanner(in); lines.Scan(); {
			cues <- struct{}{}
		}
		cancel(errShowOver)
	}()
	return &stage{cues: cues, out: json.NewEncoder(out), stopAt: stopAt}, ctx
}

// awaitStart holds the workers back until all are there, so that they are at it together.
func (s *stage) awaitStart(ctx context.Context) error {
	s.tell(report{Event: ready})
	select {
	case <-s.cues:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// between is called between each read and write. At the one that is chosen, it says so and waits: to be killed, or to
// be stopped and told to go on.
func (s *stage) between(ctx context.Context, token farsync.Token, read int) {
	s.adds++
	if s.adds != s.stopAt {
		return
	}
	s.tell(report{Event: holding, Token: token, Read: read})
	select {
	case <-s.cues:
	case <-ctx.Done():
	}
}

// reportLate tells of a refused request, and whether the lease knew that it was lost. It must have known: a lease ends
// before the lock can be somebody else's.
func (s *stage) reportLate(err error) {
	s.tell(report{Event: late, Lost: errors.Is(err, farsync.ErrLost)})
}

// tell needs no error: if nobody listens any more, stdin ends too.
func (s *stage) tell(r report) { _ = s.out.Encode(r) }
