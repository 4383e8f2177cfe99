package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// untilSignal returns a context that is done when SIGINT or SIGTERM has come. From then on standard output and
// standard error are waited for for lastWords: a pipe that is full, and a terminal that is stopped, keep a process
// that was told to end from nothing.
func (a *app) untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	over := make(chan struct{})
	unset := context.AfterFunc(ctx, func() { // ends at once
		time.AfterFunc(lastWords, func() { close(over) }) // ends with the process
	})
	a.stdout, a.stderr = &brief{a.stdout, over}, &brief{a.stderr, over}
	return ctx, func() {
		unset()
		stop()
	}
}

// A brief writes to another writer until over is closed. Then it fails.
type brief struct {
	to   io.Writer
	over <-chan struct{}
}

// errUnread is why nothing more is written.
var errUnread = errors.New("nobody has read what was written before")

func (b *brief) Write(p []byte) (int, error) {
	select {
	case <-b.over:
		return 0, errUnread
	default:
	}
	type result struct {
		n   int
		err error
	}
	text, written := slices.Clone(p), make(chan result, 1)
	go func() { // joined below, or ends with the process
		n, err := b.to.Write(text)
		written <- result{n, err}
	}()
	select {
	case r := <-written:
		return r.n, r.err
	case <-b.over:
		return 0, errUnread
	}
}

// fileOf returns the file that w writes to, or nil.
func fileOf(w io.Writer) *os.File {
	if b, ok := w.(*brief); ok {
		w = b.to
	}
	file, _ := w.(*os.File)
	return file
}
