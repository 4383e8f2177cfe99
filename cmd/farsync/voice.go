package main

import (
	"io"
	"slices"
	"time"
)

const (
	// mostUnsaid is how many lines wait for a reader. A line that comes then is dropped.
	mostUnsaid = 1024
	// lastWords is for how long the end of the process, or COMMAND, waits for what is left to be said.
	lastWords = 2 * time.Second
)

// A voice writes in the background. A terminal that is stopped and a pipe that is full must hold nothing up: the
// process has a lease to show as held, and COMMAND to end in time.
type voice struct {
	lines chan line
}

// A line is what is to be written, or a mark: said is closed when all before it was written.
type line struct {
	text []byte
	said chan struct{}
}

// speak returns a voice. Its goroutine ends with the process.
func speak(to io.Writer) *voice {
	v := &voice{make(chan line, mostUnsaid)}
	go func() {
		for l := range v.lines {
			if l.said != nil {
				close(l.said)
				continue
			}
			_, _ = to.Write(l.text) // if it fails, there is no other place to say so
		}
	}()
	return v
}

// Write never waits, and never fails.
func (v *voice) Write(p []byte) (int, error) {
	select {
	case v.lines <- line{text: slices.Clone(p)}:
	default:
	}
	return len(p), nil
}

// flush returns when all was written, or after lastWords.
func (v *voice) flush() {
	if v == nil {
		return
	}
	enough := time.NewTimer(lastWords)
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
