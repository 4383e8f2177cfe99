//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/farsync/farsync/examples/internal/program"
)

// parse returns the show that the arguments ask for.
func parse(args []string) (func(context.Context, *program.Screen) (program.Outcome, error), error) {
	o, err := parseOptions(args)
	return func(ctx context.Context, screen *program.Screen) (program.Outcome, error) {
		return perform(ctx, o, screen)
	}, err
}

// perform sets up what the show needs, runs it, and clears everything away again: the files, the number's server, the
// service.
func perform(ctx context.Context, o options, screen *program.Screen) (result *outcome, err error) {
	dir, err := os.MkdirTemp("", "farsync-quickstart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &show{options: o, screen: screen, ledger: newLedger(), reports: make(chan program.Report[report])}

	number, err := newResource(filepath.Join(dir, "number"), !o.noFence, s.ledger)
	if err != nil {
		return nil, err
	}
	url, closed, err := program.Serve(number)
	if err != nil {
		return nil, err
	}
	defer closed()
	s.config.Number = url + "/number"
	screen.Fact("number", s.config.Number+", kept in a file")

	var service *program.Running
	if o.noLock {
		screen.Fact("lock", "none (-no-lock)")
	} else {
		if service, err = o.service.Run(ctx, "quickstart", dir, screen); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, service.Close()) }()
		s.config.Service, s.config.Primitive = service.Service, o.primitive
		screen.Fact("lock", fmt.Sprintf("%s at %s, TTL %v", o.primitive, service.Path, service.TTL))
	}
	if o.noFence {
		screen.Fact("tokens", "not checked (-no-fence)")
	}

	if err := s.run(ctx); err != nil {
		return nil, err
	}
	result = &outcome{show: s, expected: workers * o.adds, took: screen.Took()}
	if result.found, err = number.load(); err != nil {
		return nil, err
	}
	if service != nil {
		if result.left, err = service.Left(ctx); err != nil {
			return nil, err
		}
	}
	return result, nil
}
