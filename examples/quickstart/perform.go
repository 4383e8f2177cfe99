//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/farsync/farsync/examples/internal/program"
)

// parse returns the show that the arguments ask for.
func parse(args []string) (program.Play, error) {
	o, err := parseOptions(args)
	return o.perform, err
}

// perform sets up what the show needs, runs it, and clears everything away again: the number's server, the service.
func (o options) perform(ctx context.Context, screen *program.Screen, dir string) (_ program.Outcome, err error) {
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
	result := &outcome{show: s, expected: workers * o.adds, took: screen.Took()}
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
