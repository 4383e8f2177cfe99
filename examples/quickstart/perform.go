//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// perform sets up what the show needs, runs it, and clears everything away again: the files, the number's server, etcd.
func perform(ctx context.Context, o options, sc *screen) (result *outcome, err error) {
	dir, err := os.MkdirTemp("", "farsync-quickstart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &show{options: o, screen: sc, ledger: newLedger(), reports: make(chan report)}
	s.config.TTL = o.ttl

	file := filepath.Join(dir, "number")
	number, err := newResource(file, !o.noFence, s.ledger)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server, served := &http.Server{Handler: number}, make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	defer func() {
		_ = server.Close()
		<-served
	}()
	s.config.Number = "http://" + listener.Addr().String() + "/number"
	sc.fact("number", s.config.Number+", kept in a file")

	var lock *service
	if o.noLock {
		sc.fact("lock", "none (-no-lock)")
	} else {
		if lock, err = openService(ctx, o.endpoints, filepath.Join(dir, "etcd")); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lock.close()) }()
		s.config.Endpoints, s.config.Path = lock.endpoints, lock.path
		whose := "started for this run"
		if len(o.endpoints) > 0 {
			whose = "yours"
		}
		sc.fact("etcd", strings.Join(lock.endpoints, ",")+", "+whose)
		sc.fact("lock", fmt.Sprintf("%s, TTL %v", lock.path, o.ttl))
	}
	if o.noFence {
		sc.fact("tokens", "not checked (-no-fence)")
	}

	if err := s.run(ctx); err != nil {
		return nil, err
	}
	result = &outcome{show: s, expected: workers * o.adds, took: time.Since(sc.begun)}
	if result.found, err = number.load(); err != nil {
		return nil, err
	}
	if lock != nil {
		if result.left, err = lock.left(ctx, 2*o.ttl); err != nil {
			return nil, err
		}
	}
	return result, nil
}
