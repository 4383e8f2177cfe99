package main

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// mostUnsaid is how many lines wait for a reader. A line that comes then is dropped.
	mostUnsaid = 1024
	// lastWords is for how long the end of the process, or COMMAND, waits for what is left to be said: for a reader
	// that has read nothing for so long, not at all.
	lastWords = 2 * time.Second
)

// A voice writes in the background. A terminal that is stopped and a pipe that is full must hold nothing up: the
// process has a lease to show as held, and COMMAND to end in time.
type voice struct {
	lines chan line

	mu    sync.Mutex
	since time.Time // when the line was begun that is being written; zero if none is
}

// A line is what is to be written, or a mark: said is closed when all before it was written.
type line struct {
	text []byte
	said chan struct{}
}

// speak returns a voice. Its goroutine ends with the process.
func speak(to io.Writer) *voice {
	v := &voice{lines: make(chan line, mostUnsaid)}
	go func() {
		for l := range v.lines {
			if l.said != nil {
				close(l.said)
				continue
			}
			v.begin(time.Now())
			_, _ = to.Write(l.text) // if it fails, there is no other place to say so
			v.begin(time.Time{})
		}
	}()
	return v
}

func (v *voice) begin(since time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since = since
}

// patience is for how long the reader is waited for.
func (v *voice) patience() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		return lastWords
	}
	return lastWords - time.Since(v.since)
}

// Write never waits, and never fails.
func (v *voice) Write(p []byte) (int, error) {
	select {
	case v.lines <- line{text: slices.Clone(p)}:
	default:
	}
	return len(p), nil
}

// flush returns when all was written, or when its reader has read nothing for lastWords.
func (v *voice) flush() {
	if v == nil {
		return
	}
	enough := time.NewTimer(v.patience())
	defer enough.Stop()
	said := make(chan struct{})
	select {
	case v.lines <- line{said: said}:
	case <-enough.C:
		return
	}
	select {
	case <-said:
	case <-enough.C:
	}
}
