//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// A screen is what the show writes on: lines that stay, each with the time since the start, and one below them that
// says how far things are. On a terminal that one is redrawn in place; elsewhere it is printed once a second.
type screen struct {
	out      *os.File
	terminal bool
	begun    time.Time
	drawn    bool      // the progress line is on the terminal now
	last     time.Time // when progress was printed, if it is not a terminal
}

const (
	lineWidth = 80
	indent    = "         " // as wide as the time before a text
)

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	now := time.Now()
	return &screen{out: out, terminal: terminal, begun: now, last: now}
}

// fact prints something that is so for the whole show.
func (s *screen) fact(name, value string) { fmt.Fprintf(s.out, "%s%-8s%s\n", indent, name, value) }

// say prints what happens, broken into lines.
func (s *screen) say(format string, args ...any) {
	s.clear()
	before := fmt.Sprintf("%6.2fs  ", time.Since(s.begun).Seconds())
	for _, line := range wrapped(fmt.Sprintf(format, args...), lineWidth-len(indent)) {
		fmt.Fprintln(s.out, before+line)
		before = indent
	}
}

// progress shows how many of all are done, and some words about it.
func (s *screen) progress(done, all int, words string) {
	switch {
	case s.terminal:
		const width = 10
		bar := strings.Repeat("#", width*done/max(all, 1))
		line := fmt.Sprintf("%s[%-*s] %d of %d: %s", indent, width, bar, done, all, words)
		// A line that wraps could not be redrawn in place.
		fmt.Fprint(s.out, "\r\033[K", line[:min(len(line), lineWidth-1)])
		s.drawn = true
	case time.Since(s.last) >= time.Second:
		s.last = time.Now()
		s.say("%d of %d adds, by worker: %s", done, all, words)
	}
}

// clear takes the progress line off the terminal.
func (s *screen) clear() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\033[K")
		s.drawn = false
	}
}

// wrapped breaks text at spaces into lines of at most width characters, if its words allow it.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
