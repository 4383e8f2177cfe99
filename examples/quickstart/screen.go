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

// textWidth is the width of a line without the time before it.
const textWidth = 84

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	now := time.Now()
	return &screen{out: out, terminal: terminal, begun: now, last: now}
}

// say prints what happens, broken into lines.
func (s *screen) say(format string, args ...any) {
	s.clear()
	stamp := fmt.Sprintf("%6.2fs", time.Since(s.begun).Seconds())
	for _, line := range wrapped(fmt.Sprintf(format, args...), textWidth) {
		fmt.Fprintf(s.out, "%7s  %s\n", stamp, line)
		stamp = ""
	}
}

// progress shows how many of all are done, and some words about it.
func (s *screen) progress(done, all int, words string) {
	switch {
	case s.terminal:
		const width = 20
		bar := strings.Repeat("#", width*done/max(all, 1))
		fmt.Fprintf(s.out, "\r\033[K         [%-*s] %d of %d  %s", width, bar, done, all, words)
		s.drawn = true
	case time.Since(s.last) >= time.Second:
		s.last = time.Now()
		s.say("%d of %d adds  %s", done, all, words)
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
	for _, word := range strings.Fields(text) {
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
