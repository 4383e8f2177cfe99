//go:build unix

package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
)

// A Stage is where a worker meets the show: it reports on its standard output, and waits for its cues, lines on its
// standard input.
type Stage struct {
	cues <-chan struct{}
	out  *json.Encoder
}

var errShowOver = errors.New("the show is over")

// NewStage returns a stage, and a context that is done when the show ends, for whatever reason: then standard input does.
func NewStage() (*Stage, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cues := make(chan struct{})
	go func() { // ends with standard input or with the process
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			select {
			case cues <- struct{}{}:
			case <-ctx.Done():
			}
		}
		cancel(errShowOver)
	}()
	return &Stage{cues: cues, out: json.NewEncoder(os.Stdout)}, ctx
}

// over reports whether a worker's error says no more than that the show is over, wherever it was by then.
func over(err error) bool { return errors.Is(err, errShowOver) || errors.Is(err, context.Canceled) }

// Await waits for the next cue.
func (s *Stage) Await(ctx context.Context) error {
	select {
	case <-s.cues:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tell reports. It needs no error: when no one listens any more, standard input ends too.
func (s *Stage) Tell(report any) { _ = s.out.Encode(report) }
